"""Commands: what the engine decided, one type per record. Published ones first, then ours.

Names and keys are the published ones, with our additional keys beside them. The order matters: it is the wire order.

Above it: the engine and every reader of records. Below it: `body`. `transitions` and `evolve` define what a command
means.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec
from msgspec import UNSET, UnsetType

from penstock.engine.records.body import Command, Object, Value, written

__all__ = [
    "CancelExecution",
    "CancelParallelBranch",
    "CompleteNode",
    "CompleteSubworkflow",
    "DeliverSignal",
    "EmitSignal",
    "FailNode",
    "JoinParallel",
    "PauseExecution",
    "RaiseInterrupt",
    "ResumeExecution",
    "ResumeInterrupt",
    "ScheduleNode",
    "StartCompensation",
    "StartParallel",
    "StartSignalWait",
    "StartSubworkflow",
    "StartTimer",
]


class _VisitBody(Command, frozen=True):
    node_id: str
    visit: int | None = written()


class ScheduleNode(_VisitBody, frozen=True):
    """The walk goes to a node."""

    scope: int = 0
    compensates: int | None = None


class CompleteNode(_VisitBody, frozen=True):
    """A visit is over; `next` is where the walk goes."""

    output: Value = written()
    next: str | None = None
    compensation: Object | None = None
    fallback: Object | None = None
    timed_out: bool = False


class FailNode(_VisitBody, frozen=True):
    """A visit failed: towards `next` if an error route took it, for good otherwise."""

    reason: str | None = written()
    message: str | None = written()
    code: str | None = written()
    details: Value = None
    next: str | UnsetType | None = UNSET
    handled_by: str | None = None
    fatal: bool = False


class RaiseInterrupt(_VisitBody, frozen=True):
    """A person is to be asked."""

    prompt: Value = written()


class ResumeInterrupt(_VisitBody, frozen=True):
    """The question was answered."""

    answer: Value | UnsetType = written(UNSET)
    secrets: Object | None = None
    round: int | None = None
    answered_by: str | None = None
    approver: Object | None = None
    note: str | None = None
    untrusted: bool = False


class StartParallel(_VisitBody, frozen=True):
    """Branches are to be started."""

    join: str | None = written()
    branch_names: Value = written()
    n: int | None = None


class CancelParallelBranch(_VisitBody, frozen=True):
    """A branch is no longer needed."""

    branch_name: str | None = written()
    index: int | None = written()


class JoinParallel(_VisitBody, frozen=True):
    """Enough branches completed."""

    join: str | None = written()


class StartTimer(_VisitBody, frozen=True):
    """The run is to sleep."""

    kind: str | None = written()
    wait_ms: int | None = msgspec.field(default=None, name="wait_ms")  # as published
    until: Value = None


class StartSignalWait(_VisitBody, frozen=True):
    """The run is to wait for a signal."""

    signal_name: str | None = written()


class DeliverSignal(_VisitBody, frozen=True):
    """A signal goes to the node that waits for it."""

    signal_name: str | None = written()
    payload: Value = written()
    buffered: bool = False
    signal_id: str | None = None
    sent_by: str | None = None
    note: str | None = None
    untrusted: bool = False


class EmitSignal(_VisitBody, frozen=True):
    """A signal is to be sent to another run."""

    derived_ids: ClassVar[tuple[str, ...]] = ("target_execution_id",)

    target_execution_id: str | None = written()
    signal_name: str | None = written()
    payload: Value = written()


class StartSubworkflow(_VisitBody, frozen=True):
    """A child run is to be started."""

    derived_ids: ClassVar[tuple[str, ...]] = ("child_execution_id",)

    workflow_ref: str | None = written()
    child_execution_id: str | None = written()
    input: Value = written()


class CompleteSubworkflow(_VisitBody, frozen=True):
    """The child's result is taken over."""

    derived_ids: ClassVar[tuple[str, ...]] = ("child_execution_id",)

    workflow_ref: str | None = written()
    child_execution_id: str | None = written()


class CancelExecution(Command, frozen=True):
    """Somebody cancels the run."""

    node_id: str | None = None
    reason: str | None = None


class PauseExecution(Command, frozen=True):
    """Somebody pauses the run."""

    reason: str | None = None


class ResumeExecution(Command, frozen=True):
    """Somebody lets a paused run go on."""


class StartCompensation(Command, frozen=True):
    """What was completed is to be undone, in this order."""

    outcome: str | None = written()
    node_ids: Value = written()
