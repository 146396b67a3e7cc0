"""What policies know of earlier calls: counts, and sums of an argument, with the call that is being decided.

A call that policies count is entered into the store before it is decided, and sees what was entered before it. So of
two calls at once, in any process, the later one sees the earlier one, and both cannot pass below a limit that has room
for one. `give_back` removes the entry if the call is not made: refused, held, repeated, or failed before it changed
anything. If the process dies in between, or nobody knows the outcome of the call, it still counts.

Counts also look into the audit log, which knows calls from before a policy asked for them; the larger of the two
holds. The audit log has digests of arguments, so amounts of such calls are not known: a sum begins with the policy.
Only the audit log counts calls that only read, so that reading writes nothing.

Above it: `policy_stage`, `pipeline`. Below it: the platform port, `governance.policy`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from penstock.base import limits
from penstock.base.clock import Clock
from penstock.base.errors import PenstockError
from penstock.base.ids import chain_of
from penstock.base.json import JsonObject
from penstock.governance.policy.amounts import UNITS, amount_of, count_value, sum_value
from penstock.governance.policy.history import Counter
from penstock.governance.policy.schema import ActionShape
from penstock.runtime.ports.audit import AuditEntry, AuditQuery
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.usage import CallUses, PolicyTotal, PolicyUse
from penstock.runtime.tables.audit.records import list_audit
from penstock.runtime.tables.policy_uses import release_uses, take_uses
from penstock.runtime.tables.runs.store import RunStore

__all__ = ["CountedCall", "PolicyHistory", "give_back", "run_tree_of"]

_LOGGER = logging.getLogger("penstock.policy")
_JOINT = "."
# The groups of built-in operations that store nothing. A tool that only reads starts a run all the same.
_ONLY_READS = ("read",)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedCall:
    """A call, as policies count it."""

    tenant: str
    principal: str
    action: ActionShape
    resource: str
    arguments: JsonObject
    run: str = ""
    """The run that it belongs to: the first of its tree, as `run_tree_of` returns it."""
    uses: CallUses | None = None
    """What the call has entered. None: it is only looked at, as if it were made now, and nothing is entered."""
    was_made: bool = False
    """Whether it repeats a call that counted when it was made."""


class PolicyHistory:
    """Counts calls for policies."""

    def __init__(self, platform: Database, clock: Clock) -> None:
        self._platform = platform
        self._clock = clock

    async def read(self, counters: Iterable[Counter], asked: Iterable[Counter], call: CountedCall) -> JsonObject:
        """Return what `asked` stands for, and enter the call if any of `counters` counts it.

        Raise `Unfit` if an argument that is added up cannot be.
        """
        now, wanted, own = self._clock.now_ms(), tuple(asked), _amounts(counters, call)
        entered = list(_to_enter(call, own, now))
        if not entered and not wanted:
            return {}
        of_store = [counter for counter in wanted if counter.subject != "run" or call.run]
        taken = await take_uses(self._platform, entered, [_total(counter, call, now) for counter in of_store])
        if call.uses is not None:
            call.uses.ids += taken.ids
            for use in entered:
                key = (use.action, use.field)
                call.uses.amounts[key] = call.uses.amounts.get(key, 0) + use.amount
        totals = dict(zip(of_store, taken.totals, strict=True))
        found: JsonObject = {}
        for counter in wanted:
            units = totals.get(counter, 0)
            is_in_total = call.was_made or (call.uses is not None and counter in totals)
            if counter.action == call.action.name and not is_in_total:
                units += own.get(_JOINT.join(counter.field), UNITS)
            found[counter.name] = (
                sum_value(units) if counter.is_sum else max(count_value(units), await self._audited(counter, call, now))
            )
        return found

    async def _audited(self, counter: Counter, call: CountedCall, now: int) -> int:
        """Return how many calls the audit log knows, with this one. More than can be looked at count as that many."""
        if counter.subject == "run":
            return 0
        query = AuditQuery(
            tenant=call.tenant,
            operation=counter.action,
            principal=call.principal if counter.subject == "principal" else None,
            subject=call.resource if counter.subject == "resource" else None,
            since=now - counter.window_ms,
            limit=limits.POLICY_HISTORY_RECORDS_MAX,
        )
        page = await list_audit(self._platform, query)
        made = sum(item.entry.count for item in page.records if _was_made(item.entry))
        return made + (counter.action == call.action.name and not call.was_made)


def _was_made(entry: AuditEntry) -> bool:
    """Whether a record is about a call with an effect, and not about one that got the answer of an earlier one."""
    return entry.outcome in ("allowed", "executed") and not entry.details.get("replayed")


def _amounts(counters: Iterable[Counter], call: CountedCall) -> dict[str, int]:
    """Return what a call adds, by argument; one for the call itself, if it is counted here."""
    found: dict[str, int] = {}
    for counter in counters:
        if counter.action != call.action.name:
            continue
        if counter.is_sum:
            found[_JOINT.join(counter.field)] = amount_of(call.action.input, call.arguments, counter.field)
        elif counter.subject == "run" or call.action.groups != _ONLY_READS:
            found[""] = UNITS
    return found


def _to_enter(call: CountedCall, own: dict[str, int], now: int) -> Iterator[PolicyUse]:
    if call.uses is None or call.was_made:
        return
    for field, amount in own.items():
        more = amount - call.uses.amounts.get((call.action.name, field), 0)
        if more > 0:
            yield PolicyUse(
                tenant=call.tenant,
                action=call.action.name,
                field=field,
                principal=call.principal,
                resource=call.resource,
                run=call.run,
                amount=more,
                at=now,
            )


def _total(counter: Counter, call: CountedCall, now: int) -> PolicyTotal:
    return PolicyTotal(
        tenant=call.tenant,
        action=counter.action,
        field=_JOINT.join(counter.field),
        since=now - counter.window_ms,
        principal=call.principal if counter.subject == "principal" else None,
        resource=call.resource if counter.subject == "resource" else None,
        run=call.run if counter.subject == "run" else None,
    )


async def give_back(platform: Database, uses: CallUses) -> None:
    """Take back what a call has entered, because it is not made. If that fails, it still counts."""
    ids = tuple(uses.ids)
    uses.ids.clear()
    uses.amounts.clear()
    if not ids:
        return
    try:
        await release_uses(platform, ids)
    except PenstockError as error:
        _LOGGER.warning("policies still count a call that was not made: %s", error.code)


async def run_tree_of(store: RunStore, run_id: str) -> str:
    """Return the first run of the tree that a run belongs to: its topmost parent, and of a chain the first run."""
    found = chain_of(run_id)
    for _ in range(limits.SUBWORKFLOW_DEPTH_MAX + 1):
        row = await store.row(found)
        if row is None or row.parent_run_id is None:
            break
        found = chain_of(row.parent_run_id)
    return found
