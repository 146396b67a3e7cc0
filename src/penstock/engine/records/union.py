"""Every record type as one closed union, for code that must handle each of them.

A `match` over `AnyBody`, or over one of its groups, ends with `assert_never`. It fails the type check once a type is
added here. A test keeps this list equal to `TYPES`.

Above it: readers of whole histories. Below it: `commands`, `events`.
"""

from __future__ import annotations

from typing import TypeAlias

from penstock.engine.records import commands, events

__all__ = [
    "ActivityBody",
    "AnyBody",
    "ChildRunBody",
    "QuestionBody",
    "RunBody",
    "ScopeBody",
    "SignalBody",
    "TimerBody",
    "WalkBody",
]

RunBody: TypeAlias = (
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
WalkBody: TypeAlias = (
    commands.ScheduleNode
    | commands.CompleteNode
    | commands.FailNode
    | events.NodeScheduled
    | events.StateUpdated
    | events.CheckpointWritten
)
ActivityBody: TypeAlias = (
    events.ActivityRequested
    | events.ActivityLeased
    | events.ActivityAsked
    | events.ActivityCompleted
    | events.ActivityFailed
    | events.ActivityOutcomeUnknown
    | events.ActivityRetried
)
QuestionBody: TypeAlias = (
    commands.RaiseInterrupt
    | commands.ResumeInterrupt
    | events.InterruptEscalated
    | events.InterruptRaised
    | events.InterruptVoted
    | events.InterruptResumed
)
TimerBody: TypeAlias = commands.StartTimer | events.TimerStarted | events.TimerFired
SignalBody: TypeAlias = (
    commands.StartSignalWait
    | commands.DeliverSignal
    | commands.EmitSignal
    | events.SignalWaitStarted
    | events.SignalReceived
    | events.SignalBuffered
    | events.SignalEmitted
)
ScopeBody: TypeAlias = (
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
ChildRunBody: TypeAlias = (
    commands.StartSubworkflow | commands.CompleteSubworkflow | events.SubworkflowStarted | events.SubworkflowCompleted
)
AnyBody: TypeAlias = (
    RunBody | WalkBody | ActivityBody | QuestionBody | TimerBody | SignalBody | ScopeBody | ChildRunBody
)
