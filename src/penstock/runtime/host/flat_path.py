"""The flat path: the result of an activity that leads straight on goes from the decision to the disk in one call.

Most results of most runs are plain moves (see `engine.moves`) of a run that is in memory, that this process owns, and
that nobody else is just changing. Nothing has to be waited for then but the disk: the run is decided, its row and page
are handed to the store, and what follows happens when the commit is settled. So whoever brings the result waits for the
commit itself, with no coroutine of the host in between. In every other case nothing is done here, and the host's `send`
takes the result as it takes any input.

Above it: the embedded host, which offers it as `try_move`. Below it: `deciding`, a `Store`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from penstock.engine.inputs import Input
from penstock.engine.outcomes import Accepted
from penstock.engine.pages import Move
from penstock.runtime.host.commits import Commit, commit_of
from penstock.runtime.host.deciding import Decider
from penstock.runtime.host.live import LiveRun
from penstock.runtime.host.rows import next_move
from penstock.runtime.ports.runs import Appended, AppendOutcome, RunWrite, StoredRunChanges

__all__ = ["FlatPath"]

Moved: TypeAlias = Callable[[LiveRun, Accepted, RunWrite, Input], None]


class FlatPath:
    """Plain moves on a store; `moved` hears of each that was stored, before whoever waits for it goes on."""

    __slots__ = ("_decider", "_moved", "_store")

    def __init__(self, decider: Decider, store: StoredRunChanges, moved: Moved) -> None:
        self._decider = decider
        self._store = store
        self._moved = moved

    def try_move(self, live: LiveRun, given: Input) -> Commit[AppendOutcome] | None:
        """Decide and store, if the input is a plain move and nothing else is under way; None where it is not.

        Another outcome than `Appended` changed nothing: the run is elsewhere by now.
        """
        row, lock = live.row, live.lock
        if not row.has_work or row.owner is None or not lock.try_enter():
            return None
        try:
            decision = self._decider.try_take(live.workflow, live.state, given)
            if decision is None or not isinstance(decision.page, Move):
                lock.leave()
                return None
            write = next_move(row, decision.page, decision)
            commit = commit_of(self._store.append(write))
        except BaseException:
            lock.leave()
            raise
        commit.and_then(partial(self._settled, live, decision, write, given))
        return commit

    def _settled(
        self, live: LiveRun, decision: Accepted, write: RunWrite, given: Input, outcome: AppendOutcome | None
    ) -> None:
        live.lock.leave()
        if type(outcome) is Appended:
            self._moved(live, decision, write, given)
