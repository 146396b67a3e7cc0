"""Every type of record as one closed type, for whoever has to say something about each of them.

A `match` over `AnyBody`, or over one of its groups, that ends with `assert_never` does not pass the type checker once a
type is added here, and a test holds this list equal to `TYPES`.

Above it: readers of whole histories. Below it: `commands`, `events`.
"""

from __future__ import annotations

from typing import TypeAlias

from penstock.engine.records import commands, events

__all__ = [
    "AnyBody",
    "OfAChildRun",
    "OfAQuestion",
    "OfAScope",
    "OfASignal",
    "OfATimer",
    "OfAnActivity",
    "OfTheRun",
    "OfTheWalk",
]

OfTheRun: TypeAlias = (
    events.ExecutionStarted
    | events.ExecutionCompleted
    | events.ExecutionFailed
    | events.ExecutionCancelled
    | events.ExecutionContinued
    | events.HistoryLimitReached
    | events.ExecutionPaused
    | events.ExecutionResumed
    | commands.CancelExecution
    | commands.PauseExecution
    | commands.ResumeExecution
    | commands.StartCompensation
)
OfTheWalk: TypeAlias = (
    commands.ScheduleNode
    | commands.CompleteNode
    | commands.FailNode
    | events.NodeScheduled
    | events.StateUpdated
    | events.CheckpointWritten
)
OfAnActivity: TypeAlias = (
    events.ActivityRequested
    | events.ActivityLeased
    | events.ActivityAsked
    | events.ActivityCompleted
    | events.ActivityFailed
    | events.ActivityOutcomeUnknown
    | events.ActivityRetried
)
OfAQuestion: TypeAlias = (
    commands.RaiseInterrupt | commands.ResumeInterrupt | events.InterruptRaised | events.InterruptResumed
)
OfATimer: TypeAlias = commands.StartTimer | events.TimerStarted | events.TimerFired
OfASignal: TypeAlias = (
    commands.StartSignalWait
    | commands.DeliverSignal
    | commands.EmitSignal
    | events.SignalWaitStarted
    | events.SignalReceived
    | events.SignalBuffered
    | events.SignalEmitted
)
OfAScope: TypeAlias = (
    commands.StartParallel
    | commands.CancelParallelBranch
    | commands.JoinParallel
    | events.ParallelForked
    | events.ParallelJoined
    | events.ParallelBranchCancelled
    | events.ForEachStarted
    | events.LoopStarted
    | events.ScopeOpened
    | events.ScopeCompleted
    | events.ScopeFailed
)
OfAChildRun: TypeAlias = (
    commands.StartSubworkflow | commands.CompleteSubworkflow | events.SubworkflowStarted | events.SubworkflowCompleted
)
AnyBody: TypeAlias = OfTheRun | OfTheWalk | OfAnActivity | OfAQuestion | OfATimer | OfASignal | OfAScope | OfAChildRun
