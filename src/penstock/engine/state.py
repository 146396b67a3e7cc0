"""The state of a run: `evolve` folds a history into it, `decide` and `pending` read it.

A run is a tree of *scopes*. A scope is one thread of the walk: the root, a branch, an item, an iteration. It is at one
node at a time; that visit is its *activation*. A node with bodies (parallel, race, for_each, loop) keeps a *frame* that
counts how many of them run, completed and failed.

Above it: `evolve` writes it, everything else in the engine reads it. Below it: `transitions`. Values inside are never
changed in place: containers are copied when a turn begins, everything else is replaced.
"""

from __future__ import annotations

from typing import Literal, Self

import msgspec
from msgspec.structs import replace

from penstock.base import limits
from penstock.base.ids import DEFAULT_TENANT
from penstock.base.json import JsonObject, JsonValue
from penstock.engine.records import Body
from penstock.engine.transitions import TERMINAL_STATUSES, Phase, RunStatus

__all__ = [
    "COMPENSATION_PREFIX",
    "Activation",
    "BufferedSignal",
    "Child",
    "CompensationEntry",
    "Continuation",
    "Dialogue",
    "Ending",
    "Failure",
    "Frame",
    "IndexedResults",
    "Key",
    "Lease",
    "RunState",
    "Scope",
]

# Prefix of the node id under which the compensation of a node is recorded. Native ids cannot contain a colon.
COMPENSATION_PREFIX = "compensate:"
# About the square root of the largest number of items, so that neither a block nor the table of blocks gets long.
_RESULTS_PER_BLOCK = 128

Key = tuple[str, int]  # node id and visit: identifies one activation of the run


class Failure(msgspec.Struct, frozen=True):
    """Why something failed. `reason` is the published word; error routes and retry policies match `code`."""

    code: str
    message: str
    reason: str
    node_id: str | None = None
    visit: int | None = None
    details: JsonValue = None


class IndexedResults(msgspec.Struct, frozen=True):
    """Results by index, kept in blocks: adding a result copies one block instead of all earlier results."""

    blocks: dict[int, dict[int, JsonValue]] = msgspec.field(default_factory=dict)

    def added(self, index: int, result: JsonValue) -> IndexedResults:
        """Return these results with one more added."""
        number = index // _RESULTS_PER_BLOCK
        block = {**self.blocks.get(number, {}), index: result}
        return IndexedResults({**self.blocks, number: block})

    def in_order(self) -> list[tuple[int, JsonValue]]:
        """Return every result with its index, ordered by index."""
        return [pair for number in sorted(self.blocks) for pair in sorted(self.blocks[number].items(), key=_index)]

    def get(self, index: int) -> JsonValue:
        """Return the result at an index, or None."""
        return self.blocks.get(index // _RESULTS_PER_BLOCK, {}).get(index)


def _index(pair: tuple[int, JsonValue]) -> int:
    return pair[0]


class Frame(msgspec.Struct, frozen=True):
    """The bodies of one activation: how many there are, how many run, how many completed or failed."""

    kind: Literal["parallel", "for_each", "loop"]
    total: int = 0
    needed: int = 0
    concurrency: int = 1
    policy: str = "fail"
    started: int = 0
    completed: int = 0
    failed: int = 0
    items: tuple[JsonValue, ...] = ()
    open: dict[int, int] = msgspec.field(default_factory=dict)  # index -> scope serial
    results: IndexedResults = IndexedResults()
    outputs: dict[int, JsonObject] = msgspec.field(default_factory=dict)
    sealed: dict[int, dict[str, dict[str, str]]] = msgspec.field(default_factory=dict)  # secret parts of these outputs
    settled: frozenset[int] = frozenset()  # branches that completed, failed or were cancelled
    failure: Failure | None = None

    @property
    def ready(self) -> bool:
        """Whether the engine has a next move for this frame."""
        may_start = self.started < self.total and len(self.open) < self.concurrency
        if self.kind == "loop":
            return not self.open
        if self.kind == "for_each":
            fatal = self.failed > 0 and self.policy == "fail"
            return fatal or may_start or (not self.open and self.started >= self.total)
        impossible = self.total - self.failed < self.needed
        return self.completed >= self.needed or impossible or may_start


class Lease(msgspec.Struct, frozen=True):
    """Who holds a host-mediated activity. Until `until`, no other host may take it."""

    holder: str
    until: int


class Dialogue(msgspec.Struct, frozen=True):
    """The last question an activity asked, its answer, and what the performer needs to continue.

    `round` counts the questions of the visit over all its attempts.
    """

    round: int
    prompt: str = ""
    answer_schema: JsonObject = msgspec.field(default_factory=dict)
    resume: JsonValue = None
    answer: JsonValue = None
    sealed: dict[str, str] | None = None  # secret parts of the answer, by path
    ask: JsonObject | None = None  # a request to the program that started the run, not to a person


# `gc=False`: it holds plain JSON and cannot be part of a reference cycle, so the garbage collector can skip it.
class Activation(msgspec.Struct, frozen=True, gc=False):
    """One visit of one node."""

    node_id: str
    visit: int
    phase: Phase
    scheduled_at: int
    attempt: int = 0
    arguments: JsonValue = None
    secrets: dict[str, str] | None = None
    idempotency_key: str | None = None  # from the document; None: derived from run, node and visit
    deadline: int | None = None  # when the attempt, the question or the whole node times out
    due_at: int | None = None  # when a sleep or a back-off ends, or others are asked
    result: JsonValue = None
    failure: Failure | None = None
    next: str | None = None  # where the scope goes when the visit is over
    external: JsonObject | None = None  # child id, signal name, prompt, correlation id: how the outside refers to it
    frame: Frame | None = None
    dialogue: Dialogue | None = None
    lease: Lease | None = None
    sealed: dict[str, str] | None = None  # secret parts of the result, by path: they come from a person's answer

    @property
    def key(self) -> Key:
        """The activation's identity within its run."""
        return self.node_id, self.visit


class Scope(msgspec.Struct, frozen=True, gc=False):
    """One thread of the walk."""

    serial: int
    body: str
    parent: int | None = None
    index: int = 0
    name: str = ""
    item_name: str = ""
    item: JsonValue = None
    shares_outputs: bool = False  # iterations of a loop write to the scope that the loop is in
    next: str | None = None
    activation: Activation | None = None
    outputs: JsonObject = msgspec.field(default_factory=dict)
    last_output: JsonValue = None
    sealed: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)  # secret parts of outputs, by node and path


class BufferedSignal(msgspec.Struct, frozen=True):
    """A signal that arrived before any node waited for it."""

    name: str
    payload: JsonValue
    signal_id: str | None = None


class CompensationEntry(msgspec.Struct, frozen=True):
    """A completed node that must be undone if the run fails or is cancelled."""

    node_id: str
    visit: int
    arguments: JsonValue
    secrets: dict[str, str] | None = None
    failure: Failure | None = None  # why it cannot be compensated


class Child(msgspec.Struct, frozen=True):
    """A child run that has not reported its end."""

    child_id: str
    node_id: str
    visit: int
    workflow_ref: str
    input: JsonValue
    version_pin: str | None = None
    abandoned: bool = False  # its node is no longer active; the child must be cancelled


class Continuation(msgspec.Struct, frozen=True):
    """The run that continues this one after it has ended."""

    run_id: str
    input: JsonValue
    newest: bool = False  # use the newest version of the definition, not the version of this run


class Ending(msgspec.Struct, frozen=True):
    """The run is on its way to `failed` or `cancelled`."""

    outcome: Literal["failed", "cancelled"]
    failure: Failure | None = None
    reason: str | None = None
    node_id: str | None = None


# `gc=False`: as for activations, it cannot be part of a reference cycle.
class RunState(msgspec.Struct, gc=False):
    """Everything known about a run. Equal histories fold to equal states."""

    run_id: str = ""
    status: RunStatus = RunStatus.PENDING
    workflow_name: str = ""
    workflow_version: str = ""
    definition_hash: str = ""
    native: bool = False
    mode: str = "in_process"
    attempt: int = 1
    tenant: str = DEFAULT_TENANT
    client_kinds: tuple[str, ...] = ()  # the kinds of requests that the program that started the run can answer
    started_by: str | None = None  # the principal who started it
    starter: JsonObject | None = None  # their kind, their credential (never the secret), and on whose behalf they act
    client_questions: int = 0  # number of requests sent to that program
    untrusted: bool = False  # the history contains data from outside, see `trust`
    parent_run_id: str | None = None
    depth: int = 0
    input: JsonValue = None
    started_at: int = 0
    updated_at: int = 0
    deadline: int | None = None
    chain_deadline: int | None = None  # also applies to the runs that continue this one
    generation: int = 1
    continued_from: str | None = None
    runs_without_wait: int = 0  # in the chain, directly before this run
    seq: int = 0
    history_bytes: int = 0
    commands: int = 0
    steps: int = 0
    values: JsonValue = None
    scopes: dict[int, Scope] = msgspec.field(default_factory=dict)
    next_serial: int = 0
    visits: dict[str, int] = msgspec.field(default_factory=dict)
    active: dict[Key, int] = msgspec.field(default_factory=dict)
    ready: set[int] = msgspec.field(default_factory=set)
    signals: tuple[BufferedSignal, ...] = ()
    signal_ids: dict[str, None] = msgspec.field(default_factory=dict)  # in order of arrival
    compensations: tuple[CompensationEntry, ...] = ()
    compensating: bool = False
    compensation_failures: tuple[Failure, ...] = ()
    children: dict[str, Child] = msgspec.field(default_factory=dict)
    unanswered: tuple[Activation, ...] = ()  # visits that ended while an outside agent waited for an answer
    paused: bool = False
    ending: Ending | None = None
    owed: Body | None = None  # the event that the last command requires to be written next
    workflow_error_routed: bool = False
    error: JsonValue = None  # the value of `error` in jq after an error route
    nodes_since_checkpoint: int = 0
    last_node_id: str | None = None
    last_child: JsonObject | None = None
    last_delegate: JsonObject | None = None
    result: JsonValue = None
    failure: Failure | None = None
    cancel_reason: str | None = None
    continuation: Continuation | None = None

    @property
    def continued_as(self) -> str | None:
        """The id of the run that continues this one."""
        return None if self.continuation is None else self.continuation.run_id

    @property
    def should_continue(self) -> bool:
        """Whether the history is so long that the run should continue as a new one."""
        return self.seq >= limits.HISTORY_ROWS_ADVISED or self.history_bytes >= limits.HISTORY_BYTES_ADVISED

    @property
    def history_full(self) -> bool:
        """Whether the history has reached its maximum length."""
        return self.seq >= limits.HISTORY_ROWS_MAX or self.history_bytes >= limits.HISTORY_BYTES_MAX

    @property
    def terminal(self) -> bool:
        """Whether the run has ended. Nothing can happen to it afterwards."""
        return self.status in TERMINAL_STATUSES

    @property
    def unsettled(self) -> bool:
        """Whether the history ends inside a decision: the engine has moves to make that wait for no input."""
        if self.ready or self.owed is not None:
            return True
        return self.history_full and not self.terminal if self.ending is None else not self.compensating

    def copy(self) -> Self:
        """Return a copy that can be evolved without affecting this state."""
        twin = replace(self)
        twin.scopes = self.scopes.copy()
        twin.visits = self.visits.copy()
        twin.active = self.active.copy()
        twin.ready = self.ready.copy()
        twin.children = self.children.copy()
        return twin

    def activation(self, node_id: str, visit: int | None = None) -> Activation | None:
        """Return the live activation of a node: that of the given visit, or of the newest one."""
        serial = self.active.get((node_id, self.visits.get(node_id, 0) if visit is None else visit))
        return None if serial is None else self.scopes[serial].activation

    def activations(self) -> list[Activation]:
        """Return every live activation, ordered by the creation of their scopes."""
        return [scope.activation for scope in self.scopes.values() if scope.activation is not None]

    def scope_of(self, key: Key) -> Scope | None:
        """Return the scope that an activation belongs to."""
        serial = self.active.get(key)
        return None if serial is None else self.scopes[serial]
