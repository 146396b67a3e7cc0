"""Hosts as the published control plane uses them: the one in memory, and any that implements the host port.

Above it: `app` and the harness choose one. Below it: `MemoryHost`, the host port.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from msgspec.structs import replace

from penstock.base import limits
from penstock.base.errors import Rejected
from penstock.base.ids import DEFAULT_TENANT, chain_of
from penstock.base.json import JsonObject
from penstock.definitions.durations import format_instant, parse_instant_ms
from penstock.definitions.model import Workflow
from penstock.engine import inputs
from penstock.engine.folding.trust import from_outside
from penstock.engine.inputs import Initiator
from penstock.engine.outcomes import Decision, Refused
from penstock.engine.records import Record, changed, events
from penstock.engine.state import RunState
from penstock.engine.status import published_phase
from penstock.engine.transitions import Phase
from penstock.governance.authorship import Author
from penstock.runtime.control_plane.functions import ControlledRun, Listing, ListQuery
from penstock.runtime.host.memory import MemoryHost
from penstock.runtime.ports.host import RunHost
from penstock.runtime.ports.platform import CallRecord
from penstock.runtime.ports.runs import RunQuery, RunRow

__all__ = ["HostControl", "MemoryControl"]

# How long one call follows a run that keeps working before it answers with the current state.
_REST_SECONDS_MAX = 30.0

# Our statuses for each published phase.
_STATUSES: dict[str, tuple[str, ...]] = {
    "interrupted": ("waiting_input", "waiting_approval"),
    "awaiting_activity": ("waiting_activity", "waiting_decision"),
    "awaiting_signal": ("waiting_signal",),
    "running": ("running", "pending", "waiting_timer", "waiting_child", "compensating", "cancelling", "paused"),
}


@dataclass(slots=True)
class MemoryControl:
    """The host in memory."""

    host: MemoryHost

    def now_ms(self) -> int:
        """Return the current time."""
        return self.host.clock()

    async def start(self, workflow: Workflow, given: inputs.StartRun) -> Decision:
        """Start a run."""
        return self.host.start(workflow, given)

    async def send(self, run_id: str, given: inputs.Input) -> Decision:
        """Give a run an input."""
        return self.host.send(run_id, given)

    async def adopt(self, workflow: Workflow, state: RunState, records: tuple[Record, ...]) -> None:
        """Take over a run whose history came from elsewhere."""
        self.host.adopt(state.run_id, workflow, state, list(records))

    async def history(self, run_id: str) -> tuple[Record, ...]:
        """Return the whole history of a run."""
        run = self.host.runs.get(run_id)
        return () if run is None else tuple(run.records)

    async def find(self, run_id: str) -> ControlledRun | None:
        """Return a run by id."""
        run = self.host.runs.get(run_id)
        return None if run is None else ControlledRun(run.workflow, run.state)

    async def run_until_waiting(self, run_id: str, *, activities: bool) -> None:
        """Perform what is due until nothing is."""
        self.host.drive(run_id, activities=activities)

    async def newest(self, run_id: str) -> str:
        """Return the last run of a chain."""
        return self.host.newest(run_id).state.run_id

    async def child_runs(self, run_id: str) -> Sequence[ControlledRun]:
        """Return the live child runs of a run."""
        return [
            ControlledRun(run.workflow, run.state)
            for name, run in self.host.runs.items()
            if name.startswith(f"{run_id}:") and not run.state.terminal
        ]

    async def list_runs(self, query: ListQuery) -> Listing:
        """Return runs by filter, newest change first."""
        after = _cursor(query.cursor)
        states = sorted((run.state for run in self.host.runs.values() if _wanted(run.state, query)), key=_newest_first)
        later = [state for state in states if after is None or _newest_first(state) > after]
        page = later[: query.limit]
        more = f"{format_instant(page[-1].updated_at)}|{page[-1].run_id}" if len(later) > query.limit else None
        return Listing([_listed(state) for state in page], more)


def _newest_first(state: RunState) -> tuple[int, str]:
    return -state.updated_at, state.run_id


def _cursor(value: str | None) -> tuple[int, str] | None:
    if value is None:
        return None
    text, separator, run_id = value.partition("|")
    instant = parse_instant_ms(text)
    if not separator or instant is None:
        raise Rejected("INVALID_LIST_CURSOR", "the cursor does not come from this list")
    return -instant, run_id


def _wanted(state: RunState, query: ListQuery) -> bool:
    return (
        query.phase in (None, published_phase(state))
        and query.workflow_name in (None, state.workflow_name)
        and (query.updated_after is None or state.updated_at > query.updated_after)
        and (query.updated_before is None or state.updated_at < query.updated_before)
    )


def _listed(state: RunState) -> JsonObject:
    return {
        "execution_id": state.run_id,
        "phase": published_phase(state),
        "definition_name": state.workflow_name,
        "updated_at": format_instant(state.updated_at),
    }


async def _refuse_nothing(workflow: Workflow) -> Refused | None:
    return None


async def _mark_nothing(workflow: Workflow) -> Mapping[str, str]:
    return {}


@dataclass(slots=True)
class HostControl:
    """A host behind the host port: the host performs work, this object only watches. It is limited to one tenant."""

    host: RunHost
    tenant: str = DEFAULT_TENANT
    labels: Mapping[str, str] = field(default_factory=dict)
    """The labels of runs that are started here."""
    starter: Initiator | None = None
    """Who starts them, if known."""
    untrusted: bool = False
    """Whether data passed in here comes from outside, see `engine.folding.trust`."""
    refuse: Callable[[Workflow], Awaitable[Refused | None]] = field(default=_refuse_nothing)
    """Returns why the caller may not start a workflow; None if they may."""
    sees: Callable[[RunRow], Awaitable[bool]] | None = None
    """Whether the caller may know of a run of the tenant; None if it may know of all of them."""
    call: CallRecord | None = None
    """The record of the call that is made through this object, stored with what it changes."""
    author: Author | None = None
    """Who writes the definitions that are stored here, if known."""
    stored: Callable[[Workflow], Awaitable[Mapping[str, str]]] = field(default=_mark_nothing)
    """Called when a definition is stored whose run starts now; returns further labels of the run."""

    @property
    def _principal(self) -> str | None:
        return None if self.starter is None else self.starter.principal

    @property
    def _initiator(self) -> JsonObject | None:
        return None if self.starter is None else self.starter.to_json()

    def now_ms(self) -> int:
        """Return the current time."""
        return self.host.clock.now_ms()

    async def start(self, workflow: Workflow, given: inputs.StartRun) -> Decision:
        """Store the definition and start a run of it.

        These are two changes, each with its audit record. The claim and the answer of the call are stored with the
        second. If the call is repeated after a crash in between, it finds the definition and starts the run.
        """
        refused = await self.refuse(workflow)
        if refused is not None:
            return refused
        record = _definition_record(self.call, workflow)
        await self.host.register(
            workflow, tenant=self.tenant, created_by=self._principal, author=self.author, call=lambda row: record
        )
        labels = {**self.labels, **await self.stored(workflow)}
        theirs = replace(given, started_by=self._principal, starter=self._initiator, untrusted=self.untrusted)
        return await self.host.start(
            theirs, workflow_hash=workflow.hash, tenant=self.tenant, labels=labels, call=self.call
        )

    async def send(self, run_id: str, given: inputs.Input) -> Decision:
        """Give a run an input."""
        theirs = from_outside(given) if self.untrusted else given
        return await self.host.send(run_id, theirs, tenant=self.tenant, call=self.call)

    async def adopt(self, workflow: Workflow, state: RunState, records: tuple[Record, ...]) -> None:
        """Take over a run whose history came from elsewhere; it now belongs to this tenant and caller."""
        await self.host.register(
            workflow, tenant=self.tenant, created_by=self._principal, author=self.author, call=lambda row: self.call
        )
        if (state.tenant, state.started_by, state.starter) != (self.tenant, self._principal, self._initiator):
            records = tuple(_owned(record, self.tenant, self.starter) for record in records)
            state = replace(state, tenant=self.tenant, started_by=self._principal, starter=self._initiator)
        refused = await self.host.adopt(state, records, labels=dict(self.labels), call=self.call)
        if refused is not None:
            raise Rejected(refused.code, refused.message, refused.hint)

    async def history(self, run_id: str) -> tuple[Record, ...]:
        """Return the whole history of a run."""
        row = await self.host.row(run_id)
        records: list[Record] = []
        while row is not None and row.tenant == self.tenant:
            after_seq = records[-1].seq if records else 0
            page = await self.host.history(run_id, after_seq=after_seq, limit=limits.HISTORY_PAGE_MAX)
            records.extend(page)
            if len(page) < limits.HISTORY_PAGE_MAX:
                break
        return tuple(records)

    async def find(self, run_id: str) -> ControlledRun | None:
        """Return a run by id."""
        state = await self.host.read(run_id)
        workflow = None if state is None else await self.host.workflow(state.definition_hash)
        if state is None or workflow is None or state.tenant != self.tenant:
            return None
        if self.sees is not None and ((row := await self.host.row(run_id)) is None or not await self.sees(row)):
            return None
        return ControlledRun(workflow, state)

    async def run_until_waiting(self, run_id: str, *, activities: bool) -> None:
        """Wait until a run and its children wait for somebody outside."""
        give_up_at = self.host.clock.now_ms() + _REST_SECONDS_MAX * 1000
        while self.host.clock.now_ms() < give_up_at:
            runs = [run.state for run in (await self.find(run_id), *await self.child_runs(run_id)) if run is not None]
            known = {chain_of(state.run_id) for state in runs}
            if not any(_busy(state, known) for state in runs):
                return
            await self._moved(runs)

    async def _moved(self, runs: Sequence[RunState]) -> None:
        """Wait until one of the runs, or a child run that they wait for, has moved; one second at most."""
        seen = {state.run_id: state.seq for state in runs}
        children = {child_id for state in runs for child_id in state.children if child_id not in seen}
        awaited = {**dict.fromkeys(children, 0), **seen}
        with ExitStack() as stack:
            moved = [stack.enter_context(self.host.watched(run_id, after_seq=seq)) for run_id, seq in awaited.items()]
            positions = await self.host.positions(tuple(awaited))
            behind = any(run_id in positions and positions[run_id].seq > seq for run_id, seq in seen.items())
            begun = any(run_id in positions and not positions[run_id].terminal for run_id in children)
            if not behind and not begun:
                await asyncio.wait(moved, timeout=1.0, return_when=asyncio.FIRST_COMPLETED)

    async def newest(self, run_id: str) -> str:
        """Return the last run of a chain."""
        return await self.host.newest(run_id)

    async def child_runs(self, run_id: str) -> Sequence[ControlledRun]:
        """Return the live child runs of a run, and theirs."""
        found: list[ControlledRun] = []
        page = await self.host.list_runs(RunQuery(parent_run_id=run_id, limit=1_000))
        for row in page.rows:
            child = None if row.terminal else await self.find(row.run_id)
            if child is not None:
                found.extend((child, *await self.child_runs(row.run_id)))
        return found

    async def list_runs(self, query: ListQuery) -> Listing:
        """Return runs by filter, newest first."""
        phase = query.phase
        rows: list[RunRow] = []
        cursor = query.cursor
        while True:
            page = await self.host.list_runs(
                RunQuery(
                    statuses=_STATUSES.get(phase, (phase,)) if phase else (),
                    workflow_name=query.workflow_name,
                    limit=query.limit - len(rows),
                    cursor=cursor,
                    tenant=self.tenant,
                )
            )
            rows.extend(
                [row for row in page.rows if _in_time(row, query) and (self.sees is None or await self.sees(row))]
            )
            cursor = page.next_cursor
            if cursor is None or len(rows) >= query.limit:
                return Listing([_listed_row(row) for row in rows], cursor)


def _definition_record(call: CallRecord | None, workflow: Workflow) -> CallRecord | None:
    """Return the record of a definition that a call stores before the change that it is made for."""
    if call is None or call.entry is None:
        return None
    record = CallRecord(entry=call.entry, seal=call.seal)
    record.about(workflow.name, stored=workflow.hash)
    return record


def _owned(record: Record, tenant: str, starter: Initiator | None) -> Record:
    if record.name != events.ExecutionStarted.__name__:
        return record
    theirs = None if tenant == DEFAULT_TENANT else tenant
    if starter is None:
        return changed(record, tenant=theirs, started_by=None, starter=None)
    return changed(record, tenant=theirs, started_by=starter.principal, starter=starter.to_json())


def _busy(state: RunState, known: set[str]) -> bool:
    """Whether a run has something to do here: perform an activity, deliver a signal, start a child.

    A known child run is checked by itself.
    """
    if state.terminal or state.paused:
        return False
    for activation in state.activations():
        match activation.phase:
            case Phase.REQUESTED if state.mode != "host_mediated":
                return True
            case Phase.EMITTING:
                return True
            case Phase.CHILD_RUNNING if str((activation.external or {}).get("childExecutionId")) not in known:
                return True
            case _:
                pass
    return False


def _in_time(row: RunRow, query: ListQuery) -> bool:
    return (query.updated_after is None or row.updated_at > query.updated_after) and (
        query.updated_before is None or row.updated_at < query.updated_before
    )


def _listed_row(row: RunRow) -> JsonObject:
    phase = next((name for name, statuses in _STATUSES.items() if row.status in statuses), row.status)
    return {
        "execution_id": row.run_id,
        "phase": phase,
        "definition_name": row.workflow_name,
        "updated_at": format_instant(row.updated_at),
    }
