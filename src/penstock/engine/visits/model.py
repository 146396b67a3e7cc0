"""What the records of a run are folded into: visits, the scopes that contain them, and their nodes.

A *visit* is one time that the run came to a node. Visits belong to *scopes*: the root, and one for each branch, item or
round that a visit with bodies opened; compensations have a root of their own. Times are the sequence numbers and epoch
milliseconds of the records. Arguments and results are not kept: a visit names the record that has its result.

Above it: `fold`, and all views. Below it: the records. These objects change while records are folded and belong to
their `RunVisits`; copy it to keep a snapshot.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, Self, TypeAlias

import msgspec
from msgspec.structs import replace

from penstock.base.json import JsonObject, JsonValue
from penstock.engine.records import commands, events
from penstock.engine.state import Key
from penstock.engine.transitions import RunStatus

__all__ = [
    "FanOut",
    "NodeVisits",
    "RunEnd",
    "RunVisits",
    "Visit",
    "VisitError",
    "VisitScope",
    "VisitStatus",
    "Wait",
    "WaitCause",
    "WaitKind",
]


class VisitStatus(StrEnum):
    """The status of a visit or a scope."""

    RUNNING = "running"
    WAITING = "waiting"
    RETRYING = "retrying"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    """No longer needed: its scope was closed, or the run ended."""


class WaitKind(StrEnum):
    """What a visit waits for."""

    APPROVAL = "approval"
    INPUT = "input"
    DECISION = "decision"
    ACTIVITY = "activity"
    SIGNAL = "signal"
    CHILD = "child"
    TIMER = "timer"
    RETRY = "retry"

    @property
    def is_question(self) -> bool:
        """Whether it is a question that can be answered."""
        return self in (WaitKind.APPROVAL, WaitKind.INPUT)


WaitCause: TypeAlias = (
    events.InterruptRaised
    | events.ActivityAsked
    | events.ActivityOutcomeUnknown
    | events.SignalWaitStarted
    | events.SubworkflowStarted
    | events.TimerStarted
    | events.ActivityFailed
    | events.SubworkflowCompleted
)
RunEnd: TypeAlias = (
    events.ExecutionCompleted | events.ExecutionFailed | events.ExecutionCancelled | events.ExecutionContinued
)
FanOut: TypeAlias = events.ParallelForked | events.ForEachStarted | events.LoopStarted


class Wait(msgspec.Struct, frozen=True, gc=False):
    """What a visit waits for, since when, and when the wait times out."""

    kind: WaitKind
    since: int
    until: int | None
    cause: WaitCause | None = None
    """The record that started the wait; None while work is in progress, because that record may be large."""


class VisitError(msgspec.Struct, frozen=True, gc=False):
    """Why an attempt, a visit or a scope failed."""

    code: str | None
    message: JsonValue


class Visit(msgspec.Struct, gc=False):
    """One time that the run came to a node; `ordinal` counts the visits of the node from 1."""

    node_id: str
    ordinal: int
    scope: int
    begun_seq: int
    begun_at: int
    status: VisitStatus = VisitStatus.RUNNING
    ended_seq: int | None = None
    """The record that ended it and has the result; for a cancelled visit, the record that cancelled it."""
    ended_at: int | None = None
    attempts: int = 0
    failures: tuple[VisitError, ...] = ()
    """The errors of the failed attempts, in order."""
    wait: Wait | None = None
    url: str | None = None
    """The URL of the newest request of an HTTP node; the document has only a template of it."""
    answer: commands.ResumeInterrupt | None = None
    signal: str | None = None
    """The signal that it received."""
    child_run_id: str | None = None
    child_workflow: str | None = None
    fan_out: FanOut | None = None
    """Its branches, items or rounds; their status is in the scopes."""
    next: str | None = None
    """The node that the walk went to next; None at the end of a body, and if the walk did not continue."""
    error: VisitError | None = None
    """Why it failed."""
    routed: bool = False
    """Whether an error route handled the failure, leading to `next`."""
    timed_out: bool = False
    fallback: str | None = None
    """The code of the error that a fallback replaced."""

    @property
    def key(self) -> Key:
        """Its identity within the run."""
        return self.node_id, self.ordinal

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        return self.ended_seq is None


class VisitScope(msgspec.Struct, gc=False):
    """One branch, item or round of a visit, counted from 0; without an owner, a root."""

    serial: int
    owner: Key | None = None
    index: int = 0
    branch: str | None = None
    begun_at: int = 0
    status: VisitStatus = VisitStatus.RUNNING
    ended_at: int | None = None
    error: VisitError | None = None
    visits: list[Key] = []
    """In the order in which they began."""

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        return self.ended_at is None


@dataclass(slots=True)
class NodeVisits:
    """The status of a node over all its visits: each field holds the last recorded value of any visit."""

    visits: int = 0
    attempts: int = 0
    status: VisitStatus = VisitStatus.RUNNING
    """Running, completed or failed."""
    begun_at: int | None = None
    ended_at: int | None = None
    code: str | None = None
    error: str | None = None


class RunVisits(msgspec.Struct):
    """A run, visit by visit."""

    run_id: str = ""
    seq: int = 0
    begun_at: int = 0
    updated_at: int = 0
    mode: str = "in_process"
    status: RunStatus = RunStatus.PENDING
    paused: bool = False
    ending: Literal["failed", "cancelled"] | None = None
    """The outcome that the run is heading for."""
    compensating: bool = False
    end: RunEnd | None = None
    """The record that ended the run."""
    visits: dict[Key, Visit] = msgspec.field(default_factory=dict)
    open: dict[Key, Visit] = msgspec.field(default_factory=dict)
    """The visits that have not ended."""
    scopes: dict[int, VisitScope] = msgspec.field(default_factory=dict)
    bodies: dict[Key, list[int]] = msgspec.field(default_factory=dict)
    """The scopes of a visit, in the order in which they were opened."""
    open_scopes: dict[Key, dict[int, int]] = msgspec.field(default_factory=dict)
    """The scopes of a visit that have not ended, by index."""
    nodes: dict[str, NodeVisits] = msgspec.field(default_factory=dict)
    usage: list[JsonObject] = msgspec.field(default_factory=list)
    """The usage that attempts reported, including failed ones."""

    def copy(self) -> Self:
        """Return a copy that can be folded further without affecting this one."""
        twin = replace(self)
        twin.visits = {key: replace(visit) for key, visit in self.visits.items()}
        twin.open = {key: twin.visits[key] for key in self.open}
        twin.scopes = {serial: replace(scope, visits=[*scope.visits]) for serial, scope in self.scopes.items()}
        twin.bodies = {key: [*serials] for key, serials in self.bodies.items()}
        twin.open_scopes = {key: opened.copy() for key, opened in self.open_scopes.items()}
        twin.nodes = {node_id: copy.copy(node) for node_id, node in self.nodes.items()}
        twin.usage = [*self.usage]
        return twin

    def visit(self, node_id: str, ordinal: int | None) -> Visit | None:
        """Return a visit of a node; without an ordinal, the newest."""
        if ordinal is None:
            node = self.nodes.get(node_id)
            ordinal = 0 if node is None else node.visits
        return self.visits.get((node_id, ordinal))

    def parent(self, visit: Visit) -> Visit | None:
        """Return the visit that contains this one."""
        owner = self.scopes[visit.scope].owner
        return None if owner is None else self.visits[owner]

    def item_index(self, visit: Visit) -> int | None:
        """Return the index of the innermost item or round that contains a visit, or None."""
        scope = self.scopes[visit.scope]
        while scope.owner is not None:
            if scope.branch is None:
                return scope.index
            scope = self.scopes[self.visits[scope.owner].scope]
        return None

    def roots(self) -> Iterator[VisitScope]:
        """Return the scopes that belong to no visit: the walk itself, and the compensations."""
        return (scope for scope in self.scopes.values() if scope.owner is None)

    def scopes_of(self, visit: Visit) -> list[VisitScope]:
        """Return the branches, items or rounds of a visit, in the order in which they were opened."""
        return [self.scopes[serial] for serial in self.bodies.get(visit.key, ())]

    def open_leaves(self) -> Iterator[Visit]:
        """Return the open visits that have no open branch, item or round inside them."""
        return (visit for visit in self.open.values() if not self.open_scopes.get(visit.key))
