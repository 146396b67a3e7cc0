"""Waiting for the result of a run: until it or a child run asks a question, it ends, or time is up.

The caller can observe progress meanwhile. The run continues if the caller stops waiting.

Above it: `execution.wait`, workflows that are called as tools. Below it: the host port, the views of runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import msgspec

from penstock.base.errors import NotFound
from penstock.base.ids import id_for_callers
from penstock.base.json import JsonObject
from penstock.engine.pending import pending_activities
from penstock.engine.state import RunState
from penstock.engine.status import run_status
from penstock.engine.transitions import RunStatus
from penstock.operations.gate.context import Context
from penstock.operations.runs.children import ChildRuns, ChildRunWatcher
from penstock.operations.runs.events import progress_data
from penstock.operations.runs.streams.tool_news import ToolNews
from penstock.operations.runs.views import ErrorView, error_of
from penstock.operations.runs.waits import QuestionView, question_views
from penstock.runtime.activities.progress import ProgressNews
from penstock.runtime.ports.host import Moved
from penstock.runtime.shared_timeouts import moved_within

__all__ = ["ExecutionResult", "HeldView", "result_of", "wait_for_result"]


# A run does not leave these by itself: a person, or another call, has to act.
_AT_REST = frozenset({"waiting_input", "waiting_approval", "paused"})

# The name that nodes use for the program that started the run.
_CLIENT = "client"

Observe = Callable[[JsonObject], Awaitable[None]]


class HeldView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """That a call waits for approval: which, why, until when, and where to look."""

    draft_id: str
    operation: str
    reason: str
    """policy, draft, confirm, risk, agent_write, authorship or requested."""
    digest: str
    expires_at: str
    look: str
    """The path of the draft."""
    denied_code: str | None = None
    """Why it was not made at once, if it could have been."""
    approvers: Any = None
    """Who decides next."""


class ExecutionResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a run ended, or its current status. Questions are the open ones, those of its children included."""

    execution_id: str
    workflow_id: str
    status: str
    sequence: int
    untrusted: bool = False
    output: Any = None
    error: ErrorView | None = None
    questions: list[QuestionView] = []
    held: HeldView | None = None
    """The call that waits for approval. The run makes it after the approval."""
    held_calls: list[HeldView] = []
    """Calls of tools that the run has made and that wait for approval; the run continues when they are decided."""


async def wait_for_result(
    context: Context, run_id: str, seconds: float, *, after_sequence: int = 0, state: RunState | None = None
) -> ExecutionResult:
    """Wait until the run ends, asks a question, or time is up; return its result or its current status.

    Questions that were open at `after_sequence` already do not end the wait. `state` is how the caller has just stored
    it: a run that ended as it began is not waited for.
    """
    observe = context.request.observe
    if state is not None and state.terminal and state.continued_as is None and observe is None:
        return result_of(context.tenant, state)
    texts = observe is not None and context.request.reads_along and not await _hides_something(context)
    waiter = _ResultWaiter(context=context, run_id=run_id, observe=observe, known=after_sequence, texts=texts)
    deadline = asyncio.get_running_loop().time() + seconds
    state = await context.caller.while_connected(lambda: waiter.until(deadline))
    if state is None:
        state = await context.services.host.read(waiter.run_id)
    if state is None:
        raise _deleted()
    return result_of(context.tenant, state, waiter.children)


async def _hides_something(context: Context) -> bool:
    """Whether policies hide fields of answers: a text that is being written has them in places that nobody can name."""
    stage = context.services.policies
    policies = None if stage is None else await stage.of(context.tenant)
    return policies is not None and bool(policies.redacting)


def _deleted() -> NotFound:
    return NotFound("EXECUTION_NOT_FOUND", "the run was deleted", "list them")


def result_of(tenant: str, state: RunState, children: tuple[RunState, ...] = ()) -> ExecutionResult:
    """Return the result of a run, or its current status."""
    asked = [] if state.terminal else question_views(state)
    for child in children:
        asked += question_views(child, execution_id=id_for_callers(tenant, child.run_id))
    return ExecutionResult(
        execution_id=id_for_callers(tenant, state.run_id),
        workflow_id=state.workflow_name,
        status=run_status(state),
        sequence=state.seq,
        untrusted=state.untrusted or any(child.untrusted for child in children),
        output=state.result if state.status is RunStatus.COMPLETED else None,
        error=error_of(state),
        questions=asked,
    )


@dataclass(slots=True, kw_only=True)
class _ResultWaiter:
    """One caller that waits for a run, and for those that continue it."""

    context: Context
    run_id: str
    observe: Observe | None
    known: int = 0
    """The sequence up to which the caller knows the run."""
    texts: bool = False
    """Whether the caller gets what models write and call."""
    tools: ToolNews = field(default_factory=ToolNews)
    waits: Moved | None = None
    children: tuple[RunState, ...] = ()
    """Children that have not ended, and theirs."""

    async def until(self, deadline: float) -> RunState:
        services = self.context.services
        services.open_streams.listen(self._nudge)
        try:
            while True:
                logs = self.observe is not None
                with services.host.progress.subscribe(
                    self.run_id, wake=self._nudge, logs=logs, texts=self.texts
                ) as news:
                    state = await self._wait_for_run(deadline, news)
                successor = await self._successor(state, deadline)
                if successor is None:
                    return state
                self.run_id, self.known, self.tools = successor, 0, ToolNews()
        finally:
            services.open_streams.leave(self._nudge)

    async def _successor(self, ended: RunState, deadline: float) -> str | None:
        """Return the run that continues an ended one, once it has begun; or None."""
        host, store, successor = self.context.services.host, self.context.services.store, ended.continued_as
        while successor is not None and self._may_wait(deadline):
            with host.watched(successor, after_seq=0) as begun:
                self.waits = begun
                # Whoever owns the ended run has this left to do. If it is done, the successor exists or was deleted.
                row = await store.row(ended.run_id)
                if await store.row(successor) is not None:
                    return successor
                if row is None or not row.has_work:
                    return None
                await moved_within(begun, deadline - asyncio.get_running_loop().time())
        return None

    async def _wait_for_run(self, deadline: float, news: ProgressNews) -> RunState:
        host, memory, seen = self.context.services.host, self.context.services.run_memory, 0
        watcher = ChildRunWatcher(host, memory)
        wanted = _is_worth_a_look if self.observe is None else None
        ended: RunState | None = None
        while True:
            with ExitStack() as watching:
                self.waits = waits = watching.enter_context(host.watched(self.run_id, after_seq=seen, wanted=wanted))
                state = ended or await memory.watched_state(self.run_id)
                if state is None:
                    raise _deleted()
                children = ChildRuns() if state.terminal or not state.children else await watcher.look(state, watching)
                self.children = children.states
                await self._report(state, news, moved=state.seq > seen)
                if state.terminal or await self._at_rest(state) or not self._may_wait(deadline):
                    return state
                # A change since the watch was opened completes it at once.
                remaining = deadline - asyncio.get_running_loop().time()
                if children.waits:
                    await asyncio.wait((waits, *children.waits), timeout=remaining, return_when=asyncio.FIRST_COMPLETED)
                else:
                    await moved_within(waits, remaining)
            ended = _ended(waits)
            seen = max(seen, state.seq)

    async def _at_rest(self, state: RunState) -> bool:
        """Whether the run needs somebody else to act. Not while a node is about to ask the client something, too."""
        asked = run_status(state) in _AT_REST or any(question_views(child) for child in self.children)
        if not asked or state.seq <= self.known:
            return False
        asking = [await self._is_asking(member) for member in (state, *self.children) if member.client_kinds]
        return not any(asking)

    async def _is_asking(self, state: RunState) -> bool:
        """Whether a node is running that will ask the client."""
        workflow = await self.context.services.host.workflow(state.definition_hash)
        under_way = pending_activities(workflow, state) if workflow is not None else []
        return any(_CLIENT in (item.config.get("provider"), item.config.get("server")) for item in under_way)

    def _may_wait(self, deadline: float) -> bool:
        return not self.context.services.open_streams.ending and asyncio.get_running_loop().time() < deadline

    async def _report(self, state: RunState, news: ProgressNews, *, moved: bool) -> None:
        reports = news.take()
        if self.observe is None:
            return
        place: JsonObject = {"execution_id": id_for_callers(self.context.tenant, state.run_id), "sequence": state.seq}
        for item in reports:
            data = progress_data(self.context.tenant, item, untrusted=state.untrusted)
            await self.observe({**place, **(data if item.level is None else {"log": data, "level": item.level})})
        for call in self.tools.of(state) if moved and self.texts else ():
            said = f"{call['name']} {call['phase']}"
            untrusted: JsonObject = {"untrusted": True} if state.untrusted else {}
            await self.observe({**place, **untrusted, "message": said, "tool": call})
        if moved:
            await self.observe({**place, "status": run_status(state), "node_id": state.last_node_id})

    def _nudge(self) -> None:
        if self.waits is not None and not self.waits.done():
            self.waits.set_result(None)


def _is_worth_a_look(state: RunState) -> bool:
    """Whether a caller that only waits for the outcome has to look at this state."""
    return state.terminal or bool(state.children) or run_status(state) in _AT_REST


def _ended(waits: Moved) -> RunState | None:
    """Return the state that completed the watch, if it is terminal: the host may have dropped it from memory."""
    state = waits.result() if waits.done() else None
    return state if state is not None and state.terminal else None
