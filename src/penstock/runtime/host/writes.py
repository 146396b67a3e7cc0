"""Writes: what is stored for a decision, and the fast path for a result that leads to a plain move.

A `RunWrite` has the records of a decision and the new index row of its run: status, next timer, whether there is work,
and who does it.

`FastPath` is for most results of most runs: plain moves (see `engine.moves`) of a run that is in memory, that this
process owns, and that nothing else is changing. Then the only thing to wait for is the disk: the run is decided, row
and page are given to the store, and the rest happens when the commit is settled. The caller waits for the commit
itself, with no coroutine of the host in between. In every other case the fast path does nothing, and the host's `send`
handles the result like any input.

Above it: the embedded host, which offers the fast path as `try_move`. Below it: `deciding`, a `RunStore`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from msgspec.structs import replace

from penstock.engine.effects import Effect, PerformActivity, WakeUp
from penstock.engine.inputs import CompleteActivity, FailActivity, Input
from penstock.engine.outcomes import Accepted
from penstock.engine.pages import Move
from penstock.engine.pending import next_wake_up_at
from penstock.engine.state import RunState
from penstock.engine.status import run_status
from penstock.runtime.host.deciding import Decider
from penstock.runtime.ports.commits import Commit, commit_of
from penstock.runtime.ports.host import LiveRun
from penstock.runtime.ports.platform import CallRecord
from penstock.runtime.ports.runs import Appended, AppendOutcome, RunRow, RunWrite
from penstock.runtime.ports.usage import RunUsage, reported_models, reported_usage
from penstock.runtime.tables.runs.store import RunStore

__all__ = ["FastPath", "first_row", "first_write", "is_work", "next_move", "next_owner", "next_write", "usage_of"]


def first_row(
    state: RunState, effects: tuple[Effect, ...], *, created_at: int, labels: dict[str, str], owner: str | None
) -> RunRow:
    """Build the row of a run that is stored for the first time; `owner` performs its work, if it has any."""
    has_work = _has_work(state, effects)
    owner = owner if has_work else None
    return RunRow(
        run_id=state.run_id,
        workflow_name=state.workflow_name,
        workflow_version=state.workflow_version,
        definition_hash=state.definition_hash,
        status=run_status(state),
        seq=state.seq,
        created_at=created_at,
        updated_at=state.updated_at,
        parent_run_id=state.parent_run_id,
        labels=labels,
        wake_at=next_wake_up_at(state),
        has_work=has_work,
        owner=owner,
        terminal=state.terminal,
        tenant=state.tenant,
        epoch=0 if owner is None else 1,
        started_by=state.started_by,
    )


def first_write(row: RunRow, decision: Accepted, call: CallRecord | None = None) -> RunWrite:
    """Build the write of a decision for a run that does not exist yet, with the record of the call that starts it."""
    page = decision.page
    if call is not None:
        call.decided(decision)
    if isinstance(page, Move):
        return RunWrite(expected_seq=0, row=row, move=page, call=call)
    return RunWrite(expected_seq=0, row=row, records=page, call=call)


def next_write(
    was: RunRow,
    seq: int,
    decision: Accepted,
    effects: tuple[Effect, ...],
    *,
    owner: str | None,
    call: CallRecord | None = None,
) -> RunWrite:
    """Build the write of a decision for a run that exists; only the changed fields of its index row are new."""
    if call is not None:
        call.decided(decision)
    state = decision.state
    status, wake_at, has_work, terminal = _index_of(decision, effects)
    owner, epoch = next_owner(was, has_work=has_work, candidate=owner)
    row = replace(was, seq=state.seq, updated_at=state.updated_at)
    before = (was.status, was.wake_at, was.has_work, was.owner, was.terminal)
    same_index = before == (status, wake_at, has_work, owner, terminal)
    if not same_index:
        row = replace(
            row, status=status, wake_at=wake_at, has_work=has_work, owner=owner, terminal=terminal, epoch=epoch
        )
    epoch, page = was.epoch, decision.page
    if isinstance(page, Move):
        return RunWrite(expected_seq=seq, expected_epoch=epoch, row=row, move=page, same_index=same_index, call=call)
    return RunWrite(expected_seq=seq, expected_epoch=epoch, row=row, records=page, same_index=same_index, call=call)


def usage_of(row: RunRow, state: RunState, given: Input) -> RunUsage | None:
    """Return what a result used, and for whom: the principal that started its run, or the one that it acted for."""
    extra = given.extra if isinstance(given, CompleteActivity | FailActivity) else None
    reported = None if extra is None else reported_usage(extra)
    if reported is None:
        return None
    starter = state.starter or {}
    subjects = starter.get("accounts") or [starter.get("onBehalfOf") or starter.get("principal") or state.started_by]
    tokens, cost = reported
    return RunUsage(
        tenant=row.tenant,
        subjects=tuple(name for name in subjects if isinstance(name, str)) if isinstance(subjects, list) else (),
        at=given.at,
        tokens=tokens,
        cost=cost,
        models=reported_models(extra),
    )


def next_move(was: RunRow, move: Move, decision: Accepted) -> RunWrite:
    """Like `next_write`, for a plain move of a run that has work and an owner.

    Nearly always one activity follows another and neither has a deadline: then the index does not change.
    """
    state, effects = decision.state, decision.effects or ()
    if was.wake_at is None and state.deadline is None and effects and was.status == "waiting_activity":
        effect = effects[0]
        if isinstance(effect, PerformActivity) and effect.deadline is None and state.mode != "host_mediated":
            return RunWrite(
                expected_seq=move.first_seq - 1,
                expected_epoch=was.epoch,
                row=replace(was, seq=state.seq, updated_at=state.updated_at),
                move=move,
                same_index=True,
            )
    return next_write(was, move.first_seq - 1, decision, effects, owner=was.owner)


def _index_of(decision: Accepted, effects: tuple[Effect, ...]) -> tuple[str, int | None, bool, bool]:
    """Return the status of a run after a decision, its next timer, whether it has work, and whether it has ended."""
    state = decision.state
    if not isinstance(decision.page, Move):
        return run_status(state), next_wake_up_at(state), _has_work(state, effects), state.terminal
    # A plain move leads to one activity or to the end, so there is nothing else to check.
    if not effects:
        return str(state.status), None, False, True
    (effect,) = effects
    wake_at = state.deadline
    deadline = effect.deadline if isinstance(effect, PerformActivity) else None
    if deadline is not None and (wake_at is None or deadline < wake_at):
        wake_at = deadline
    return "waiting_activity", wake_at, state.mode != "host_mediated", False


def _has_work(state: RunState, effects: tuple[Effect, ...]) -> bool:
    for effect in effects:  # noqa: SIM110  # runs after every decision, and a generator costs three times as much
        if is_work(state, effect):
            return True
    return False


def is_work(state: RunState, effect: Effect) -> bool:
    """Whether this process must perform an effect itself: not timers, and not the activities of host-mediated runs."""
    if isinstance(effect, PerformActivity):
        return state.mode != "host_mediated"
    return not isinstance(effect, WakeUp)


Moved: TypeAlias = Callable[[LiveRun, Accepted, RunWrite, Input], None]


class FastPath:
    """Plain moves on a store; `moved` is called with each stored move, before its waiters continue."""

    __slots__ = ("_decider", "_moved", "_store")

    def __init__(self, decider: Decider, store: RunStore, moved: Moved) -> None:
        self._decider = decider
        self._store = store
        self._moved = moved

    def try_move(self, live: LiveRun, given: Input) -> Commit[AppendOutcome] | None:
        """Decide and store, if the input is a plain move and nothing else is in progress; otherwise return None.

        Any outcome but `Appended` changed nothing: the run has moved elsewhere.
        """
        row, lock = live.row, live.lock
        if not row.has_work or row.owner is None or not lock.try_acquire():
            return None
        try:
            decision = self._decider.try_take(live.workflow, live.state, given)
            if decision is None or not isinstance(decision.page, Move):
                lock.release()
                return None
            write = next_move(row, decision.page, decision)
            commit = commit_of(self._store.append(write))
        except BaseException:
            lock.release()
            raise
        commit.and_then(partial(self._settled, live, decision, write, given))
        return commit

    def _settled(
        self, live: LiveRun, decision: Accepted, write: RunWrite, given: Input, outcome: AppendOutcome | None
    ) -> None:
        live.lock.release()
        if type(outcome) is Appended:
            self._moved(live, decision, write, given)


def next_owner(was: RunRow, *, has_work: bool, candidate: str | None) -> tuple[str | None, int]:
    """Return the owner of a run and its epoch. Every new ownership begins a new epoch, even of the same owner.

    The owner of a run with work may be performing it: it keeps the run, and will notice the change.
    """
    if not has_work:
        return None, was.epoch
    if was.has_work and was.owner is not None:
        return was.owner, was.epoch
    return candidate, was.epoch if candidate is None else was.epoch + 1
