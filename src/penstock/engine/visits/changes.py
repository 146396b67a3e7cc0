"""What a record says about its run or about a visit, by record type alone.

Consumers that report on runs record by record (streams, webhooks, the OpenWOP wire) may not know the history before a
record, and should not have to decode its body. Each has its own words for these changes, and ignores some of them. The
table names every record type: a new type must get a change, or explicitly none.

Above it: everything that reports on a run as it proceeds. Below it: the record types.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from penstock.engine.records import Body, commands, events

__all__ = ["CHANGES", "Change", "change_of"]


class Change(StrEnum):
    """What happened to a run or to a visit."""

    RUN_STARTED = "run_started"
    RUN_PAUSED = "run_paused"
    RUN_RESUMED = "run_resumed"
    RUN_COMPLETED = "run_completed"
    RUN_CONTINUED = "run_continued"
    RUN_FAILED = "run_failed"
    RUN_CANCELLED = "run_cancelled"

    BEGUN = "begun"
    COMPLETED = "completed"
    FAILED = "failed"

    ATTEMPT_REQUESTED = "attempt_requested"
    ATTEMPT_COMPLETED = "attempt_completed"
    ATTEMPT_FAILED = "attempt_failed"
    OUTCOME_UNKNOWN = "outcome_unknown"
    RETRIED = "retried"

    ASKING = "asking"
    """A node is about to ask; the question follows."""
    ASKED = "asked"
    """A node asked."""
    ATTEMPT_ASKED = "attempt_asked"
    """An activity asked."""
    VOTED = "voted"
    """One of several approvers agreed."""
    ESCALATED = "escalated"
    """Nobody decided in time: others are asked."""
    ANSWERED = "answered"
    RESUMED = "resumed"
    """The answer was accepted."""

    SIGNAL_AWAITED = "signal_awaited"
    SIGNALLED = "signalled"
    TIMER_STARTED = "timer_started"
    TIMER_FIRED = "timer_fired"
    CHILD_STARTED = "child_started"
    CHILD_ENDED = "child_ended"


# None: what the next record reports anyway, and what only concerns the engine.
CHANGES: Final[Mapping[type[Body], Change | None]] = MappingProxyType(
    {
        events.ExecutionStarted: Change.RUN_STARTED,
        events.ExecutionPaused: Change.RUN_PAUSED,
        events.ExecutionResumed: Change.RUN_RESUMED,
        events.ExecutionCompleted: Change.RUN_COMPLETED,
        events.ExecutionContinued: Change.RUN_CONTINUED,
        events.ExecutionFailed: Change.RUN_FAILED,
        events.ExecutionCancelled: Change.RUN_CANCELLED,
        events.HistoryLimitReached: None,
        commands.PauseExecution: None,
        commands.ResumeExecution: None,
        commands.CancelExecution: None,
        commands.StartCompensation: None,
        commands.ScheduleNode: None,
        events.NodeScheduled: Change.BEGUN,
        commands.CompleteNode: Change.COMPLETED,
        commands.FailNode: Change.FAILED,
        events.StateUpdated: None,
        events.CheckpointWritten: None,
        events.ActivityRequested: Change.ATTEMPT_REQUESTED,
        events.ActivityLeased: None,
        events.ActivityCompleted: Change.ATTEMPT_COMPLETED,
        events.ActivityFailed: Change.ATTEMPT_FAILED,
        events.ActivityOutcomeUnknown: Change.OUTCOME_UNKNOWN,
        events.ActivityRetried: Change.RETRIED,
        events.ActivityAsked: Change.ATTEMPT_ASKED,
        commands.RaiseInterrupt: Change.ASKING,
        events.InterruptRaised: Change.ASKED,
        events.InterruptVoted: Change.VOTED,
        events.InterruptEscalated: Change.ESCALATED,
        commands.ResumeInterrupt: Change.ANSWERED,
        events.InterruptResumed: Change.RESUMED,
        commands.StartSignalWait: None,
        events.SignalWaitStarted: Change.SIGNAL_AWAITED,
        commands.DeliverSignal: None,
        events.SignalReceived: Change.SIGNALLED,
        events.SignalBuffered: None,
        commands.EmitSignal: None,
        events.SignalEmitted: None,
        commands.StartTimer: None,
        events.TimerStarted: Change.TIMER_STARTED,
        events.TimerFired: Change.TIMER_FIRED,
        commands.StartSubworkflow: None,
        events.SubworkflowStarted: Change.CHILD_STARTED,
        events.SubworkflowCompleted: Change.CHILD_ENDED,
        commands.CompleteSubworkflow: None,
        commands.StartParallel: None,
        events.ParallelForked: None,
        commands.JoinParallel: None,
        events.ParallelJoined: None,
        commands.CancelParallelBranch: None,
        events.ParallelBranchCancelled: None,
        events.ForEachStarted: None,
        events.LoopStarted: None,
        events.ScopeOpened: None,
        events.ScopeCompleted: None,
        events.ScopeFailed: None,
    }
)
_BY_NAME: Final = {kind.__name__: change for kind, change in CHANGES.items()}


def change_of(name: str) -> Change | None:
    """Return the change that a record with this name reports; None if it reports none or the name is unknown."""
    return _BY_NAME.get(name)
