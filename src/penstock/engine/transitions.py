"""All states of the machine and every transition between them, as data.

Two rules. Everything that decides which state follows which lives in this file; and this file knows nothing of
documents, time or payloads. `evolve` looks transitions up here, `advance` asks which phases have a next move, and the
diagram in ``docs/reference/engine-states.md`` is drawn from the tables.

An *activation* is one visit of one node. Its phase says what was recorded last and therefore what comes next: phases in
`READY_PHASES` have a next move that needs no input; the others wait for an input from outside. A *run* has a status;
`RUN_TRANSITIONS` says which records change it.

Some records lead to different phases depending on their content (a failure that will be retried or not). Such a record
is looked up with a variant, which `evolve` chooses.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from penstock.engine.records import Body, commands, events

__all__ = [
    "ACTIVATION_TRANSITIONS",
    "FINISHED_PHASES",
    "READY_PHASES",
    "RUN_TRANSITIONS",
    "TERMINAL_STATUSES",
    "Phase",
    "RunStatus",
]


class RunStatus(StrEnum):
    """The status of a run. Its activations say what a running run waits for, see `status`."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Phase(StrEnum):
    """The phases of one visit of one node."""

    SCHEDULING = "scheduling"
    SCHEDULED = "scheduled"
    # activities
    REQUESTED = "requested"
    OUTCOME_UNKNOWN = "outcome_unknown"
    BACKING_OFF = "backing_off"
    RETRYING = "retrying"
    RESOLVED = "resolved"
    ASKING = "asking"
    CONTINUING = "continuing"
    # timers
    STARTING_TIMER = "starting_timer"
    SLEEPING = "sleeping"
    DUE = "due"
    WOKEN = "woken"
    TIMED_OUT = "timed_out"
    # questions to people
    RAISING = "raising"
    RAISED = "raised"
    INTERRUPTED = "interrupted"
    ANSWERING = "answering"
    ANSWERED = "answered"
    # signals
    STARTING_SIGNAL_WAIT = "starting_signal_wait"
    AWAITING_SIGNAL = "awaiting_signal"
    DELIVERING = "delivering"
    SIGNALLED = "signalled"
    EMITTING = "emitting"
    EMITTED = "emitted"
    # bodies inside a node
    FORKING = "forking"
    FORKED = "forked"
    JOINING = "joining"
    JOINED = "joined"
    # child runs
    STARTING_CHILD = "starting_child"
    CHILD_RUNNING = "child_running"
    CHILD_DONE = "child_done"
    CHILD_MERGED = "child_merged"
    # the end of a visit
    FAILING = "failing"
    COMPLETED = "completed"
    UPDATED = "updated"
    CHECKPOINTED = "checkpointed"
    ROUTED = "routed"
    FAILED = "failed"


TERMINAL_STATUSES: Final = frozenset({RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED})

# Phases in which the engine itself writes the next record. FORKED is ready depending on the counts in its frame, and
# AWAITING_SIGNAL is ready if a matching signal is buffered: `evolve` computes both.
READY_PHASES: Final = frozenset(
    {
        Phase.SCHEDULING,
        Phase.SCHEDULED,
        Phase.RETRYING,
        Phase.RESOLVED,
        Phase.CONTINUING,
        Phase.STARTING_TIMER,
        Phase.DUE,
        Phase.WOKEN,
        Phase.TIMED_OUT,
        Phase.RAISING,
        Phase.RAISED,
        Phase.ANSWERING,
        Phase.ANSWERED,
        Phase.STARTING_SIGNAL_WAIT,
        Phase.DELIVERING,
        Phase.SIGNALLED,
        Phase.EMITTED,
        Phase.FORKING,
        Phase.JOINING,
        Phase.JOINED,
        Phase.STARTING_CHILD,
        Phase.CHILD_DONE,
        Phase.CHILD_MERGED,
        Phase.FAILING,
        Phase.COMPLETED,
        Phase.UPDATED,
        Phase.CHECKPOINTED,
        Phase.ROUTED,
        Phase.FAILED,
    }
)

# The visit is over and its scope moves on to the next node.
FINISHED_PHASES: Final = frozenset({Phase.COMPLETED, Phase.UPDATED, Phase.CHECKPOINTED, Phase.ROUTED})

_WAITING_WITH_TIMEOUT = frozenset(
    {
        Phase.INTERRUPTED,
        Phase.AWAITING_SIGNAL,
        Phase.FORKED,
        Phase.CHILD_RUNNING,
    }
)
# A node may complete from any of these; which one depends on its type.
_MAY_COMPLETE = frozenset(
    {
        Phase.SCHEDULED,
        Phase.RESOLVED,
        Phase.WOKEN,
        Phase.TIMED_OUT,
        Phase.ANSWERED,
        Phase.SIGNALLED,
        Phase.EMITTED,
        Phase.FORKED,
        Phase.JOINED,
        Phase.CHILD_MERGED,
        Phase.FAILING,
    }
)
# A limit can end a run after any finished visit, so a finished phase may fail too.
_MAY_FAIL = _MAY_COMPLETE | FINISHED_PHASES | {Phase.CHILD_DONE, Phase.FAILED}


# Work was requested and has not returned. An activity that asks a person may still be ended from outside.
_AT_WORK = frozenset({Phase.REQUESTED, Phase.OUTCOME_UNKNOWN, Phase.ASKING})


def _from(*phases: Phase) -> frozenset[Phase]:
    return frozenset(phases)


# record type and variant -> (phases it may follow, phase it leads to)
ACTIVATION_TRANSITIONS: Final[dict[tuple[type[Body], str], tuple[frozenset[Phase], Phase]]] = {
    (events.NodeScheduled, ""): (_from(Phase.SCHEDULING), Phase.SCHEDULED),
    (events.ActivityRequested, ""): (_from(Phase.SCHEDULED, Phase.RETRYING), Phase.REQUESTED),
    (events.ActivityLeased, ""): (_from(Phase.REQUESTED), Phase.REQUESTED),
    (events.ActivityOutcomeUnknown, ""): (_from(Phase.REQUESTED), Phase.OUTCOME_UNKNOWN),
    (events.ActivityAsked, ""): (_from(Phase.REQUESTED, Phase.OUTCOME_UNKNOWN), Phase.ASKING),
    (events.ActivityCompleted, ""): (_AT_WORK, Phase.RESOLVED),
    (events.ActivityFailed, "final"): (_AT_WORK, Phase.FAILING),
    (events.ActivityFailed, "backoff"): (_AT_WORK, Phase.BACKING_OFF),
    (events.ActivityFailed, "retry"): (_AT_WORK, Phase.RETRYING),
    (events.ActivityRetried, ""): (_from(Phase.OUTCOME_UNKNOWN), Phase.RETRYING),
    (events.TimerFired, "retry"): (_from(Phase.BACKING_OFF), Phase.RETRYING),
    (commands.StartTimer, ""): (_from(Phase.SCHEDULED), Phase.STARTING_TIMER),
    (events.TimerStarted, "later"): (_from(Phase.STARTING_TIMER), Phase.SLEEPING),
    (events.TimerStarted, "due"): (_from(Phase.STARTING_TIMER), Phase.DUE),
    (events.TimerFired, "wait"): (_from(Phase.SLEEPING, Phase.DUE), Phase.WOKEN),
    (events.TimerFired, "timeout"): (_WAITING_WITH_TIMEOUT, Phase.TIMED_OUT),
    (commands.RaiseInterrupt, ""): (_from(Phase.SCHEDULED), Phase.RAISING),
    (events.InterruptRaised, "waiting"): (_from(Phase.RAISING), Phase.INTERRUPTED),
    (events.InterruptRaised, "checkpoint"): (_from(Phase.RAISING), Phase.RAISED),
    (events.InterruptVoted, ""): (_from(Phase.INTERRUPTED), Phase.INTERRUPTED),
    (events.InterruptEscalated, ""): (_from(Phase.INTERRUPTED), Phase.INTERRUPTED),
    (commands.ResumeInterrupt, "node"): (_from(Phase.INTERRUPTED), Phase.ANSWERING),
    (commands.ResumeInterrupt, "activity"): (_from(Phase.ASKING), Phase.CONTINUING),
    (events.InterruptResumed, "node"): (_from(Phase.ANSWERING), Phase.ANSWERED),
    (events.InterruptResumed, "activity"): (_from(Phase.CONTINUING), Phase.REQUESTED),
    (commands.StartSignalWait, ""): (_from(Phase.SCHEDULED), Phase.STARTING_SIGNAL_WAIT),
    (events.SignalWaitStarted, ""): (_from(Phase.STARTING_SIGNAL_WAIT), Phase.AWAITING_SIGNAL),
    (commands.DeliverSignal, ""): (_from(Phase.AWAITING_SIGNAL), Phase.DELIVERING),
    (events.SignalReceived, ""): (_from(Phase.DELIVERING), Phase.SIGNALLED),
    (commands.EmitSignal, ""): (_from(Phase.SCHEDULED), Phase.EMITTING),
    (events.SignalEmitted, "delivered"): (_from(Phase.EMITTING), Phase.EMITTED),
    (events.SignalEmitted, "refused"): (_from(Phase.EMITTING), Phase.FAILING),
    (commands.StartParallel, ""): (_from(Phase.SCHEDULED), Phase.FORKING),
    (events.ParallelForked, ""): (_from(Phase.FORKING), Phase.FORKED),
    (events.ForEachStarted, ""): (_from(Phase.SCHEDULED), Phase.FORKED),
    (events.LoopStarted, ""): (_from(Phase.SCHEDULED), Phase.FORKED),
    (commands.JoinParallel, ""): (_from(Phase.FORKED), Phase.JOINING),
    (events.ParallelJoined, ""): (_from(Phase.JOINING), Phase.JOINED),
    (commands.StartSubworkflow, ""): (_from(Phase.SCHEDULED, Phase.RETRYING), Phase.STARTING_CHILD),
    (events.SubworkflowStarted, ""): (_from(Phase.STARTING_CHILD), Phase.CHILD_RUNNING),
    (events.SubworkflowCompleted, "done"): (_from(Phase.CHILD_RUNNING), Phase.CHILD_DONE),
    (events.SubworkflowCompleted, "failed"): (_from(Phase.CHILD_RUNNING), Phase.FAILING),
    (events.SubworkflowCompleted, "backoff"): (_from(Phase.CHILD_RUNNING), Phase.BACKING_OFF),
    (events.SubworkflowCompleted, "retry"): (_from(Phase.CHILD_RUNNING), Phase.RETRYING),
    (commands.CompleteSubworkflow, ""): (_from(Phase.CHILD_DONE), Phase.CHILD_MERGED),
    (commands.CompleteNode, ""): (_MAY_COMPLETE, Phase.COMPLETED),
    (events.StateUpdated, ""): (_from(Phase.COMPLETED), Phase.UPDATED),
    (events.CheckpointWritten, "node"): (_from(Phase.COMPLETED, Phase.UPDATED), Phase.CHECKPOINTED),
    (events.CheckpointWritten, "waiting"): (_from(Phase.RAISED), Phase.INTERRUPTED),
    (commands.FailNode, "routed"): (_MAY_FAIL, Phase.ROUTED),
    (commands.FailNode, "final"): (_MAY_FAIL, Phase.FAILED),
}

RUN_TRANSITIONS: Final[dict[type[Body], tuple[frozenset[RunStatus], RunStatus]]] = {
    events.ExecutionStarted: (frozenset({RunStatus.PENDING}), RunStatus.RUNNING),
    events.ExecutionCompleted: (frozenset({RunStatus.RUNNING}), RunStatus.COMPLETED),
    events.ExecutionContinued: (frozenset({RunStatus.RUNNING}), RunStatus.COMPLETED),
    events.ExecutionFailed: (frozenset({RunStatus.PENDING, RunStatus.RUNNING}), RunStatus.FAILED),
    events.ExecutionCancelled: (frozenset({RunStatus.RUNNING}), RunStatus.CANCELLED),
}
