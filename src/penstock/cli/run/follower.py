"""A run and its child runs, followed as they go: records come in, views grow.

It works the same whether this process performs the run or another one does.

Above it: the commands that watch. Below it: `source`, `view`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from penstock.base.errors import NotFound
from penstock.cli.run.source import RunSource
from penstock.cli.run.view import Question, RunView
from penstock.definitions.model import Workflow
from penstock.engine.records import Record
from penstock.engine.visits import Visit, WaitKind

__all__ = ["Follower"]

# Child runs that are followed with their own lines; of the others only their parent's line is shown.
_CHILDREN_MAX = 50
# Views are not updated more often than this: drawing must not slow down a fast run.
_REST_SECONDS = 0.05
# Waits that end only when somebody outside does something.
_OUTSIDE = frozenset({WaitKind.APPROVAL, WaitKind.INPUT, WaitKind.DECISION, WaitKind.SIGNAL})


@dataclass(slots=True, kw_only=True)
class Follower:
    """The views of one run and its child runs."""

    source: RunSource
    view: RunView
    children: dict[str, RunView] = field(default_factory=dict)
    unseen: list[tuple[str, Record]] = field(default_factory=list)  # what no display has shown yet
    known: dict[str, Workflow] = field(default_factory=dict)  # the workflows of runs that were continued

    @classmethod
    async def of(cls, source: RunSource, run_id: str) -> Follower:
        """Begin to follow a run."""
        workflow = await source.workflow(run_id)
        if workflow is None:
            message, hint = f"there is no run {run_id} with a document to read", "`penstock runs list` shows the runs"
            raise NotFound("EXECUTION_NOT_FOUND", message, hint)
        return cls(source=source, view=RunView(workflow=workflow, name=run_id))

    async def catch_up(self) -> bool:
        """Read what happened since the last time; False when nothing did."""
        news = await self._read(self.view)
        for child_id in [name for view in (self.view, *self.children.values()) for name in view.children()]:
            await self._adopt(child_id)
        for child_id, view in tuple(self.children.items()):
            if not view.ended:
                news += await self._read(view)
            if view.continued_as is not None and (successor := await self._successor(view)) is not None:
                self.children[child_id] = successor
        self.unseen += news
        return bool(news)

    async def go_on(self) -> None:
        """Follow the run that continues this one, once it has been started."""
        while (successor := await self._successor(self.view)) is None:
            await self.rest()
        self.view, self.children = successor, {}

    async def _successor(self, view: RunView) -> RunView | None:
        """A view of the run that continues another one; None as long as it is not there."""
        for run_id in (view.continued_as, await self.source.latest(view.run_id)):
            workflow = None if run_id is None else await self.source.workflow(run_id)
            if run_id is not None and workflow is not None:
                self.known[view.run_id] = view.workflow
                return RunView(workflow=workflow, name=run_id)
        return None

    def take_unseen(self) -> list[tuple[str, Record]]:
        """Take the records that were not shown yet."""
        news, self.unseen = self.unseen, []
        return news

    async def _read(self, view: RunView) -> list[tuple[str, Record]]:
        news = await self.source.records(view.run_id, view.seq)
        view.take(news)
        return [(view.run_id, record) for record in news]

    async def _adopt(self, child_id: str) -> None:
        if child_id in self.children or len(self.children) >= _CHILDREN_MAX:
            return
        workflow = await self.source.workflow(child_id)
        if workflow is not None:
            self.children[child_id] = RunView(workflow=workflow, name=child_id)

    async def wait(self) -> None:
        """Wait for something to happen, or long enough to look again."""
        await self.source.wait(self.view.run_id, self.view.seq)

    async def rest(self) -> None:
        """Pause before reading the run again."""
        await asyncio.sleep(_REST_SECONDS)

    def workflows(self) -> dict[str, Workflow]:
        """The workflow of every run that is followed."""
        return self.known | {view.run_id: view.workflow for view in (self.view, *self.children.values())}

    def questions(self) -> list[Question]:
        """Open questions, the run's own first."""
        if self.view.ended or self.view.visits.paused:
            return []
        return [question for view in (self.view, *self.children.values()) for question in view.questions()]

    @property
    def waits_outside(self) -> bool:
        """True when the run waits for an action from outside: an answer, a decision, a signal or a resume."""
        return not self.view.ended and self._waits_outside(self.view)

    def _waits_outside(self, view: RunView) -> bool:
        visits = list(view.visits.open_leaves())
        if not visits or view.visits.ending is not None:
            return False
        return all(self._visit_waits_outside(view, visit) for visit in visits)

    def _visit_waits_outside(self, view: RunView, visit: Visit) -> bool:
        match None if visit.wait is None else visit.wait.kind:
            case WaitKind.ACTIVITY:
                return view.visits.mode == "host_mediated"
            case WaitKind.CHILD:
                child = self.children.get(visit.child_run_id or "")
                return child is not None and not child.ended and self._waits_outside(child)
            case kind:
                return view.visits.paused or kind in _OUTSIDE
