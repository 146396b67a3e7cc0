"""The operation that decides recorded calls again with other policies: what would change, before it does.

The audit log keeps a digest of arguments, not the arguments. If the new policies look at them, a call is decided only
where a run remembers its input; any other is counted as undecidable. Principals are taken as they are now: a key that
is gone is decided with what its record says. Calls that were refused for other reasons than a policy are left out.

Above it: the catalogue. Below it: `targets`, the audit log, the histories of runs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from penstock.base import limits
from penstock.base.errors import NotFound
from penstock.base.ids import id_in_tenant
from penstock.base.json import JsonObject
from penstock.engine.records import events
from penstock.governance.policy.sets import PolicySet
from penstock.operations.catalogue.capability import Capability, Example, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import instant
from penstock.operations.gate.authentication import principal_of
from penstock.operations.gate.context import Context, Principal
from penstock.operations.gate.policy_stage import PolicyStage, Standpoint, Target
from penstock.operations.policies.explaining import outcome_word
from penstock.operations.policies.reading import (
    PolicyProblemView,
    problem_views,
    read_policies,
    refuse_invalid,
    stage_of,
)
from penstock.operations.policies.targets import Called, find_called
from penstock.operations.runs.actions.workflows import start_arguments
from penstock.runtime.ports.audit import AuditEntry, AuditQuery, AuditRecord
from penstock.runtime.tables.api_keys import read_key
from penstock.runtime.tables.audit.records import list_audit

__all__ = ["OPERATIONS"]

_DENIED = "POLICY_DENIED"
_CHANGES_SHOWN_MAX = 200


class ReplayPolicies(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which policies, and how many calls."""

    text: Annotated[
        str,
        Meta(
            description="The new policies. From the operator they replace those of the server; from others, their own.",
            max_length=limits.POLICY_TEXT_CHARACTERS_MAX,
            min_length=1,
        ),
    ]
    last: Annotated[int, Meta(description="How many records to look at.", ge=1, le=limits.POLICY_REPLAYED_MAX)] = 1_000


class ReplayedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded call that would be decided differently."""

    seq: int
    at: str | None
    principal: str
    operation: str
    subject: str | None
    count: int
    before: Literal["permitted", "forbidden"]
    after: Literal["permitted", "forbidden", "approval"]
    policies: list[str]
    reasons: list[str]


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """What would change."""

    calls: int
    """Calls that were decided again, gathered reads counted one by one."""
    would_be_refused: int
    would_need_approval: int
    would_be_permitted: int
    undecidable: int
    """Calls that the new policies cannot decide: their arguments, or counts of that time, are not known any more."""
    unknown: int
    """Calls of things that do not exist any more."""
    changes: list[ReplayedCall]
    """The newest records that would change."""
    version: str
    problems: list[PolicyProblemView] = []


@operation(
    "policy.replay",
    route=Route(method="POST", path="/policies/replay"),
    scopes=("policy:read", "audit:read"),
    reads=True,
    bucket="admin",
    errors=("POLICY_INVALID",),
    examples=(Example(arguments={"text": '@id("all") permit (principal, action, resource);', "last": 100}),),
)
async def policy_replay(context: Context, given: ReplayPolicies) -> Replay:
    """Decide recorded calls again with other policies.

    Takes the last calls of your tenant in the audit log. Says how many would now be refused, need an approval or be
    permitted, and which could not be decided because only a digest of their arguments is stored.
    """
    stage, is_operator = stage_of(context), context.is_operator
    read = await read_policies(context, [("text", given.text)], tenant=context.tenant, of_tenant=not is_operator)
    refuse_invalid(read.problems)
    new = PolicySet(read.policies) if is_operator else PolicySet(stage.server, read.policies)
    replaying = _Replaying(context, stage, new)
    for record in await _records(context, given.last):
        await replaying.take(record)
    return replaying.result(problem_views(read.problems))


async def _records(context: Context, last: int) -> list[AuditRecord]:
    found: list[AuditRecord] = []
    before: int | None = None
    while len(found) < last:
        query = AuditQuery(
            tenant=context.tenant, before_seq=before, limit=min(limits.PAGE_LIMIT_MAX, last - len(found))
        )
        page = await list_audit(context.services.platform, query)
        found += page.records
        if not page.has_more or not page.records:
            break
        before = page.records[-1].seq
    return found


class _Replaying:
    """Counts what the new policies decide."""

    def __init__(self, context: Context, stage: PolicyStage, policies: PolicySet) -> None:
        self._context, self._stage, self._policies = context, stage, policies
        self._principals: dict[str, Principal | None] = {}
        self._called: dict[tuple[str, str | None], Called | None] = {}
        self._counts: dict[str, int] = {}
        self._changes: list[ReplayedCall] = []

    async def take(self, record: AuditRecord) -> None:
        """Decide one record again."""
        entry = record.entry
        was_denied = entry.outcome == "refused" and entry.code == _DENIED
        if entry.outcome not in ("allowed", "executed") and not was_denied:
            return
        called = await self._find(entry)
        if called is None:
            self._count("unknown", entry)
            return
        arguments = await self._arguments(entry, called.target)
        principal = await self._principal(entry)
        entity = self._stage.entity(principal)
        counts = self._policies.counters_for(entity, called.target.action)
        if counts or (arguments is None and self._policies.reads_input(entity, called.target.action)):
            self._count("undecidable", entry)
            return
        has_key = "idempotency_key" in entry.details
        standpoint = Standpoint(surface=entry.surface, remote=entry.remote, has_idempotency_key=has_key, at_ms=entry.at)
        decided = self._stage.decide_action(self._policies, principal, called.target, arguments or {}, standpoint)
        if decided.outcome is None:
            self._count("undecidable", entry)
            return
        self._count("calls", entry)
        after = outcome_word(decided.outcome)
        before: Literal["permitted", "forbidden"] = "forbidden" if was_denied else "permitted"
        if after == before:
            return
        self._count(after, entry)
        if len(self._changes) < _CHANGES_SHOWN_MAX:
            change = ReplayedCall(
                seq=record.seq,
                at=instant(entry.at),
                principal=entry.principal,
                operation=entry.operation,
                subject=entry.subject,
                count=entry.count,
                before=before,
                after=after,
                policies=list(decided.outcome.policy_ids),
                reasons=list(getattr(decided.outcome, "reasons", ())),
            )
            self._changes.append(change)

    def result(self, problems: list[PolicyProblemView]) -> Replay:
        """Return what was counted."""
        counts = self._counts
        return Replay(
            calls=counts.get("calls", 0),
            would_be_refused=counts.get("forbidden", 0),
            would_need_approval=counts.get("approval", 0),
            would_be_permitted=counts.get("permitted", 0),
            undecidable=counts.get("undecidable", 0),
            unknown=counts.get("unknown", 0),
            changes=self._changes,
            version=self._policies.version,
            problems=problems,
        )

    def _count(self, what: str, entry: AuditEntry) -> None:
        self._counts[what] = self._counts.get(what, 0) + entry.count

    async def _find(self, entry: AuditEntry) -> Called | None:
        key = (entry.operation, entry.subject)
        if key not in self._called:
            try:
                found = await find_called(self._context, entry.operation, {})
            except NotFound:
                self._called[key] = None
            else:
                target = found.target
                named = entry.subject if found.is_builtin and entry.subject else target.resource_id
                self._called[key] = replace(found, target=Target(target.action, target.risk, named))
        return self._called[key]

    async def _arguments(self, entry: AuditEntry, target: Target) -> JsonObject | None:
        """Return the arguments of a call that started a run; None if they are not known."""
        if entry.run_id is None or not target.action.name.startswith("workflow:"):
            return None
        host = self._context.services.host
        run_id = id_in_tenant(self._context.tenant, entry.run_id)
        row = await host.row(run_id)
        begun = await host.history(run_id, limit=1) if row is not None else ()
        first = begun[0].body_as(events.ExecutionStarted) if begun else None
        stored = None if row is None else await self._context.services.store.definitions.find(row.definition_hash)
        if first is None or stored is None or first.input is msgspec.UNSET:
            return None
        return start_arguments(stored.document, first.input)

    async def _principal(self, entry: AuditEntry) -> Principal:
        """Return who called, as they are now; from the record, if their key is gone."""
        credential = entry.credential or entry.principal
        if credential not in self._principals:
            row = await read_key(self._context.services.platform, credential.removeprefix("key:"))
            same = row is not None and row.tenant == self._context.tenant
            self._principals[credential] = principal_of(row) if row is not None and same else None
        known = self._principals[credential]
        if known is not None and known.id == entry.principal:
            return known
        return Principal(
            id=entry.principal,
            tenant=entry.tenant,
            kind=entry.principal_kind or "service",
            scopes=frozenset({"*"}),
            name=entry.principal_name or "",
            acting_for=entry.acting_for or (),
        )


OPERATIONS: tuple[Capability, ...] = (policy_replay,)
