"""A tester for workflow authors: real runs, scripted activities, and time that passes when the test says so.

    from penstock.testing import WorkflowTester, in_turn

    async with WorkflowTester.open("refund.yaml", activities={"order": {"total": 200}}) as tester:
        tester.script("pay", in_turn(StepFailed("TIMEOUT", "slow"), {"amount": 180, "reference": "R1"}))
        await tester.start({"order_id": "A-1", "amount": 180})
        await tester.wait_for_status("waiting_input")
        await tester.answer({"approve": True})
        await tester.advance(minutes=1)
        assert await tester.result() == {"refunded": 180, "reference": "R1"}

Everything but the activities and the clock is what runs in production: the host, the driver, retries, timers, children.
Nothing is written to disk, and nothing waits for real time: a test of a run that takes a year takes milliseconds.

Above it: `penstock.testing`, the name under which tests import it. Below it: `Penstock` on a store in memory with a
`ManualClock`, and `scripted_activities`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from penstock.app.drivers import temporary_storage
from penstock.app.penstock import Penstock
from penstock.base.clock import ManualClock
from penstock.base.errors import Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.model import ACTIVITY_TYPES, Workflow
from penstock.engine.records import Record
from penstock.engine.state import RunState
from penstock.engine.status import is_status, run_status
from penstock.engine.visits import visits_of
from penstock.engine.walk.questions import open_questions
from penstock.runtime.activities.performing import ActivityCall
from penstock.runtime.ports.runs import RunQuery
from penstock.runtime.run_handle import Run
from penstock.testing.scripted_activities import NEVER, InTurn, Scripted, ScriptedActivities, in_turn

__all__ = ["NEVER", "InTurn", "Scripted", "WorkflowTester", "in_turn"]

# A fixed start time makes two runs of one test equal.
_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
# The store is in memory, so work in progress advances in every iteration of the event loop. A dozen iterations without
# progress is more than the longest chain of tasks that hand work to each other.
_QUIET_ROUNDS = 12
# After this many iterations something must be looping.
_ROUNDS_MAX = 1_000_000
# Real time that functions of the test may take.
_PATIENCE_SECONDS = 30.0
_RUNS_MAX = 10_000


class WorkflowTester:
    """Runs of workflows under test. Methods use the run that was started last, unless another is passed."""

    def __init__(
        self, penstock: Penstock, workflow: Workflow, clock: ManualClock, activities: ScriptedActivities
    ) -> None:
        self.penstock = penstock
        self._workflow = workflow
        self._clock = clock
        self._activities = activities
        self._run: Run | None = None

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        *workflows: str | Path | JsonObject,
        activities: Mapping[str, Scripted] | None = None,
        steps: Iterable[Callable[..., Any]] = (),
        secrets: Mapping[str, str] | None = None,
        begin: datetime = _BEGIN,
    ) -> AsyncIterator[WorkflowTester]:
        """Open a tester for workflows: files, texts or documents. The first is under test, the others are its children.

        `activities` maps nodes to the outcome of their activity: a value, an exception, a function of the call, or
        several of these `in_turn`. A step that is not scripted calls its function if `steps` has it. Any other activity
        that is not scripted fails.
        """
        if not workflows:
            raise Rejected("NO_WORKFLOW", "there is no workflow to test", "give a file, a text or a document")
        clock = ManualClock(int(begin.timestamp() * 1000))
        scripted = ScriptedActivities(activities or {}, steps)
        async with Penstock.open(
            storage=temporary_storage(),
            clock=clock,
            executors=dict.fromkeys(map(str, ACTIVITY_TYPES), scripted),
            secrets=(secrets or {}).get,
        ) as penstock:
            try:
                compiled = [await penstock.register(source) for source in workflows]
                yield cls(penstock, compiled[0], clock, scripted)
            finally:
                await scripted.close()

    # --- actions ------------------------------------------------------------------------------------

    @property
    def now(self) -> datetime:
        """The current time of the test's clock."""
        return datetime.fromtimestamp(self._clock.now_ms() / 1000, tz=UTC)

    def script(self, node: str, outcome: Scripted) -> None:
        """Set the outcome of a node's activity from now on."""
        self._activities.script(node, outcome)

    async def start(self, given: JsonValue = None, *, workflow: str | None = None, run_id: str | None = None) -> Run:
        """Start a run and let it advance as far as it can without time passing."""
        run = await self.penstock.start(workflow or self._workflow, given, run_id=run_id)
        self._run = run
        await self.settle()
        return run

    async def answer(
        self, answer: JsonValue, *, node: str | None = None, by: str | None = None, run: Run | None = None
    ) -> None:
        """Answer a question as a person would."""
        await self._chosen(run).answer(answer, node=node, by=by)
        await self.settle()

    async def signal(self, name: str, payload: JsonValue = None, *, run: Run | None = None) -> None:
        """Send a signal."""
        await self._chosen(run).signal(name, payload)
        await self.settle()

    async def cancel(self, reason: str | None = None, *, run: Run | None = None) -> None:
        """Cancel the run."""
        await self._chosen(run).cancel(reason)
        await self.settle()

    async def advance(self, **by: float) -> None:
        """Let time pass (`days`, `hours`, `minutes`, `seconds`, `milliseconds`). Timers fire at their own times."""
        until = self._clock.now_ms() + round(timedelta(**by).total_seconds() * 1000)
        while True:
            await self.settle()
            soonest = await self.penstock.store.next_wake_at(after=self._clock.now_ms())
            if soonest is None or soonest > until:
                break
            self._clock.advance(soonest - self._clock.now_ms())
        self._clock.advance(until - self._clock.now_ms())
        await self.settle()

    async def settle(self) -> None:
        """Wait until nothing moves: every run has ended, or waits for time, for a person or for a signal."""
        quiet, before = 0, None
        for _ in range(_ROUNDS_MAX):
            if not await self._activities.idle(_PATIENCE_SECONDS):
                busy = ", ".join(sorted(self._activities.busy()))
                raise AssertionError(f"these activities do not end: {busy}; script them with NEVER")
            await self._fire_due_timers()
            await asyncio.sleep(0)
            now = await self._positions()
            quiet = quiet + 1 if now == before and not self._activities.busy() else 0
            if quiet >= _QUIET_ROUNDS:
                return
            before = now
        raise AssertionError("the runs do not come to rest; check whether one of them loops")

    async def _fire_due_timers(self) -> None:
        """Fire the timers that are due. The driver does the same; whichever comes second finds none."""
        if self.penstock.driver is not None:
            await self.penstock.driver.fire_timers()

    async def _positions(self) -> tuple[tuple[str, int], ...]:
        page = await self.penstock.store.list_runs(RunQuery(limit=_RUNS_MAX))
        return tuple((row.run_id, row.seq) for row in page.rows)

    # --- queries ------------------------------------------------------------------------------------

    async def status(self, *, run: Run | None = None) -> str:
        """The status of the run."""
        return await self._chosen(run).status()

    async def wait_for_status(self, *statuses: str, run: Run | None = None) -> None:
        """Fail the test unless the run settles in one of these statuses."""
        await self.settle()
        state = await self._chosen(run).state()
        found = run_status(state)
        if not any(is_status(wanted, found) for wanted in statuses):
            raise AssertionError(f"the run is `{found}`, not `{'` or `'.join(statuses)}`{_run_summary(state)}")

    async def result(self, *, run: Run | None = None) -> JsonValue:
        """The result of the run. Fails the test unless it has completed."""
        await self.wait_for_status("completed", run=run)
        return (await self._chosen(run).state()).result

    async def failure(self, *, run: Run | None = None) -> str:
        """The error code of the run. Fails the test unless it has failed."""
        await self.wait_for_status("failed", run=run)
        failure = (await self._chosen(run).state()).failure
        return "" if failure is None else failure.code

    async def question(self, *, run: Run | None = None) -> JsonValue:
        """The question that waits for a person."""
        await self.wait_for_status("waiting_input", run=run)
        state = await self._chosen(run).state()
        asked = open_questions(state)
        return asked[0].prompt if asked else None

    async def history(self, *, run: Run | None = None) -> list[Record]:
        """The records of the run."""
        return await self._chosen(run).history()

    async def path(self, *, run: Run | None = None) -> list[str]:
        """The nodes that the run has reached, in order."""
        return [node_id for node_id, _ in visits_of(await self.history(run=run)).visits]

    def calls(self, node: str) -> list[ActivityCall]:
        """Every attempt of a node's activity, with its arguments."""
        return self._activities.calls(node)

    def cancelled(self, node: str) -> int:
        """How many attempts of a node's activity were cancelled while they were in progress."""
        return self._activities.cancelled(node)

    def _chosen(self, run: Run | None) -> Run:
        chosen = run or self._run
        if chosen is None:
            raise AssertionError("no run was started yet")
        return chosen


def _run_summary(state: RunState) -> str:
    """A description of a run for the message of a failed test."""
    if state.failure is not None:
        return f": {state.failure.code}: {state.failure.message} (node {state.failure.node_id})"
    waiting = [f"{item.node_id} ({item.phase})" for item in state.activations()]
    return f": it is at {', '.join(waiting)}" if waiting else ""
