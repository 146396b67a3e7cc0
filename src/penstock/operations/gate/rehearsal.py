"""Rehearsing a call: its handler runs up to its first effect and changes nothing.

The rehearsal makes every refusal of the handler before a person has to decide: what does not exist, belongs to the
settings, is quarantined, in another state, not permitted or not valid. The handler works with read-only stores. For a
change with a condition (an etag, a hash, an input of a run), the rehearsal decides as the store or the engine would.
The first change ends the rehearsal. So an operation needs no second copy of its checks, and every new operation has
them from the beginning.

Above it: `holds`, before a call waits or is shown. Below it: the ports, the engine's decisions. What depends on others
(a server that answers, a model) is not known before the real call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, NoReturn, TypeVar

import msgspec

from penstock.engine.decide import decide
from penstock.engine.inputs import Input, StartRun
from penstock.engine.outcomes import Decision, Refused
from penstock.engine.state import RunState
from penstock.governance.holds import Approval, CallFacts
from penstock.governance.quotas import check_quota
from penstock.operations.gate.context import Context, Request, Services, WriteIntent
from penstock.runtime.ports.database import is_change
from penstock.runtime.ports.graph_outcomes import GraphExists
from penstock.runtime.ports.graphs import GraphRef
from penstock.runtime.ports.platform import CallRecord
from penstock.runtime.ports.runs import ANY, AnyHash, DefinitionChanged
from penstock.runtime.ports.transactions import Transaction
from penstock.runtime.ports.usage import StartQuota
from penstock.runtime.tables.runs.store import RunStore
from penstock.runtime.tables.usage import read_usage

__all__ = ["READS", "FirstEffect", "ReadOnly", "rehearse"]

T = TypeVar("T")
READS: Mapping[str, frozenset[str]] = {
    "platform": frozenset({"changed", "damage", "one", "read", "rows", "run_index", "set_aside", "word_index"}),
    "host": frozenset(
        {"read", "history", "row", "positions", "list_runs", "workflow", "workflow_named", "clock"}
        | {"evaluator", "progress", "violations", "evaluate_for", "fold"}
    ),
    "scheduler": frozenset({"find", "fresh", "taken"}),
    "graphs": frozenset(
        {"graph", "graphs", "branches", "commits", "commit", "resolve", "unsupported", "read", "explain", "diff"}
        | {"changes", "export", "try_merge", "plan_schema"}
    ),
    "upstreams": frozenset(
        {"rules", "rules_for", "refusal", "tool_reviews", "resources", "states", "looked_at"}
        | {"accepted_by_settings", "clock"}
    ),
    "audit_keys": frozenset({"exists", "prepared"}),
    "backups": frozenset({"files", "path"}),
    "sign_ins": frozenset({"servers", "status", "clock"}),
}
"""What a handler may still use, by the member of its services. Anything else is an effect."""


class FirstEffect(BaseException):
    """The handler would change something now. No handler may catch it, so it is no `Exception`."""


def _stop(*_: Any, **__: Any) -> NoReturn:
    raise FirstEffect


class ReadOnly:
    """A read-only part of the services. `decided` are changes that the rehearsal refuses as the real part would."""

    def __init__(self, inner: Any, reads: frozenset[str], decided: Mapping[str, Any] | None = None) -> None:
        self._inner, self._reads, self._decided = inner, reads, decided or {}

    def __getattr__(self, name: str) -> Any:
        found = self._decided.get(name)
        if found is not None:
            return found
        inner = getattr(self._inner, name)
        if name in self._reads or inner is None:
            return inner
        return _stop if callable(inner) else ReadOnly(inner, frozenset())


class _AttemptedError(Exception):
    """A change was tried, and is undone."""


class _NothingErased:
    """Overwrites nothing, because what a rehearsal deletes comes back."""

    is_unfinished = False

    def overwrite(self, transaction: Transaction) -> None:
        """Do nothing."""

    async def finish(self) -> None:
        """Do nothing."""


class _NothingWaits:
    """Holds nothing in a rehearsal, and makes no call for others."""

    def __init__(self, inner: Any) -> None:
        self.find, self.reach = inner.find, inner.reach
        self.call: Callable[[Request], Awaitable[Any]] = _stop

    async def hold_for(self, context: Context, *_: Any, **__: Any) -> None:
        """Return None: whether it waits was decided before."""

    async def hold_of(self, context: Context, facts: CallFacts, asked: tuple[Approval, ...] = ()) -> None:
        """Return None: whether it waits was decided before."""


async def rehearse(context: Context) -> None:
    """Run the handler of a call up to its first effect; raise what it refuses the call with."""
    decided = _Decided(context.services)
    own: dict[str, Mapping[str, Any]] = {
        "platform": {"write": decided.write, "erasure": _NothingErased()},
        "host": {"send": decided.send, "start": decided.start, "register": decided.register},
        "scheduler": {"keep": decided.keep_schedule},
        "graphs": {"create_graph": decided.create_graph},
    }
    parts: dict[str, Any] = {
        name: ReadOnly(inner, reads, own.get(name))
        for name, reads in READS.items()
        if (inner := getattr(context.services, name)) is not None
    }
    parts["store"] = RunStore(parts["platform"])
    request = context.request
    looking = msgspec.structs.replace(request.intent or WriteIntent(), only_look=True)
    rehearsed = msgspec.structs.replace(
        context,
        services=replace(context.services, **parts),
        request=msgspec.structs.replace(request, intent=looking, idempotency_key=None, observe=None),
        call=CallRecord(),  # the real one has only what the real call does
        holds=None if context.holds is None else _NothingWaits(context.holds),
        rehearses=True,
    )
    try:
        await context.capability.handler(rehearsed, context.given)
    except FirstEffect:
        return


class _Decided:
    """Changes as far as they can be decided without making them."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def write(
        self,
        change: Callable[[Transaction], T],
        *,
        happened: Callable[[T], bool] = is_change,
        is_long: bool = False,
        **_: Any,
    ) -> T:
        """Make a change and undo it; return its outcome if nothing would change."""
        outcomes: list[T] = []

        def attempt(transaction: Transaction) -> None:
            outcomes.clear()  # it may be the second time
            with suppress(_AttemptedError), transaction.undo_on_error():
                outcomes.append(change(transaction))
                raise _AttemptedError

        await self._services.platform.write(attempt, is_long=is_long)
        if happened(outcomes[0]):
            _stop()
        return outcomes[0]

    async def keep_schedule(self, row: Any, was: Any, **_: Any) -> bool:
        if was is not None or await self._services.scheduler.find(row.schedule_id) is None:
            _stop()
        return False

    async def register(
        self, workflow: Any, *, tenant: str, expected_hash: str | AnyHash | None = ANY, **_: Any
    ) -> DefinitionChanged:
        row = await self._services.store.definitions.find_named(workflow.name, tenant=tenant)
        current = None if row is None else row.hash
        if expected_hash is ANY or expected_hash == current:
            _stop()
        return DefinitionChanged(current)

    async def create_graph(self, ref: GraphRef, **_: Any) -> GraphExists:
        graphs = self._services.graphs
        if graphs is None or await graphs.graph(ref) is None:
            _stop()
        return GraphExists()

    async def send(self, run_id: str, given: Input, *, tenant: str | None = None, **_: Any) -> Decision:
        state = await self._services.host.read(run_id)
        if state is None or tenant not in (None, state.tenant):
            return Refused("EXECUTION_NOT_FOUND", f"there is no run {run_id}")
        if state.continued_as is not None:
            _stop()  # the next run of the chain decides
        return await self._decide(state.definition_hash, state, given)

    async def start(
        self,
        given: StartRun,
        *,
        workflow_hash: str,
        tenant: str | None = None,
        call: CallRecord | None = None,
        **_: Any,
    ) -> Decision:
        if call is not None and call.quota is not None:
            await self._check_quota(call.quota)
        if await self._services.store.row(given.run_id) is not None:
            return Refused("DUPLICATE_EXECUTION_ID", f"run {given.run_id} exists already")
        theirs = given if tenant is None else msgspec.structs.replace(given, tenant=tenant)
        return await self._decide(workflow_hash, RunState(), theirs)

    async def _check_quota(self, quota: StartQuota) -> None:
        """Refuse a start for which nothing is left, as the store would."""
        for item in quota.subjects:
            used = await read_usage(self._services.platform, quota.tenant, item.subject, at=quota.at)
            check_quota(item.limits, used, item.subject, quota.at)

    async def _decide(self, definition_hash: str, state: RunState, given: Input) -> Decision:
        """Return why the engine refuses an input; stop if it would take it."""
        services = self._services
        workflow = await services.host.workflow(definition_hash)
        if workflow is None:
            _stop()
        holder = given.tenant if isinstance(given, StartRun) else state.tenant
        evaluator = services.hook_evaluator or services.host.evaluator
        decision: Decision = await services.hook_threads.run(
            holder, decide, workflow, state, given, evaluator=evaluator
        )
        if not isinstance(decision, Refused):
            _stop()
        return decision
