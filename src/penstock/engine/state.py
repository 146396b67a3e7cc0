"""The state of a run: what `evolve` folds a history into and what `decide` and `pending` read.

A run is a tree of *scopes*. A scope is one thread of the walk: the root, a branch, an item, an iteration. It is at one
node at a time; that visit is its *activation*. A node with bodies (parallel, race, for_each, loop) keeps a *frame*
that counts what became of them.

Above it: `evolve` writes it, everything else in the engine reads it. Below it: `transitions`.
Values inside are never changed in place: containers are copied when a turn begins, the rest is replaced.
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

# The node id under which the undoing of a node is recorded; native ids cannot contain a colon.
COMPENSATION_PREFIX = "compensate:"
# About the root of the largest number of items, so that neither a block nor the table of blocks is long.
_RESULTS_PER_BLOCK = 128

Key = tuple[str, int]  # node id and visit: one activation, once and for all


class Failure(msgspec.Struct, frozen=True):
    """Why something failed. `reason` is the published word, `code` the one that routes and retries match."""

    code: str
    message: str
    reason: str
    node_id: str | None = None
    visit: int | None = None
    details: JsonValue = None


class IndexedResults(msgspec.Struct, frozen=True):
    """Results by index, kept in blocks: adding one copies its block, not all that came before it."""

    blocks: dict[int, dict[int, JsonValue]] = msgspec.field(default_factory=dict)

    def added(self, index: int, result: JsonValue) -> IndexedResults:
        """These results and one more."""
        number = index // _RESULTS_PER_BLOCK
        block = {**self.blocks.get(number, {}), index: result}
        return IndexedResults({**self.blocks, number: block})

    def in_order(self) -> list[tuple[int, JsonValue]]:
        """Every result with its index, by index."""
        return [pair for number in sorted(self.blocks) for pair in sorted(self.blocks[number].items(), key=_index)]

    def get(self, index: int) -> JsonValue:
        """One result; None where there is none."""
        return self.blocks.get(index // _RESULTS_PER_BLOCK, {}).get(index)


def _index(pair: tuple[int, JsonValue]) -> int:
    return pair[0]


class Frame(msgspec.Struct, frozen=True):
    """The bodies of one activation: how many there are, how many run, what became of them."""

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
    sealed: dict[int, dict[str, dict[str, str]]] = msgspec.field(default_factory=dict)  # of these outputs
    settled: frozenset[int] = frozenset()  # branches that completed, failed or were cancelled
    failure: Failure | None = None

    @property
    def ready(self) -> bool:
        """True when the engine has a next move for this frame."""
        may_start = self.started < self.total and len(self.open) < self.concurrency
        if self.kind == "loop":
            return not self.open
        if self.kind == "for_each":
            fatal = self.failed > 0 and self.policy == "fail"
            return fatal or may_start or (not self.open and self.started >= self.total)
        impossible = self.total - self.failed < self.needed
        return self.completed >= self.needed or impossible or may_start


class Lease(msgspec.Struct, frozen=True):
    """Who does a host-mediated activity, and until when nobody else may."""

    holder: str
    until: int


class Dialogue(msgspec.Struct, frozen=True):
    """What an activity asked a person last, what it was told, and what its performer needs to go on.

    `round` counts the questions of the visit over all its attempts.
    """

    round: int
    prompt: str = ""
    answer_schema: JsonObject = msgspec.field(default_factory=dict)
    resume: JsonValue = None
    answer: JsonValue = None
    sealed: dict[str, str] | None = None  # what is secret in the answer, by place
    ask: JsonObject | None = None  # to the program that started the run, not to a person


# `gc=False`: it holds plain JSON and cannot be part of a circle, so the garbage collector need not look at it.
class Activation(msgspec.Struct, frozen=True, gc=False):
    """One visit of one node."""

    node_id: str
    visit: int
    phase: Phase
    scheduled_at: int
    attempt: int = 0
    arguments: JsonValue = None
    secrets: dict[str, str] | None = None
    idempotency_key: str | None = None  # as the document gives it; None: made from run, node and visit
    deadline: int | None = None  # when the attempt, the question or the whole node times out
    due_at: int | None = None  # when a sleep or a back-off ends
    result: JsonValue = None
    failure: Failure | None = None
    next: str | None = None  # where the scope goes when the visit is over
    external: JsonObject | None = None  # child id, signal name, prompt, correlation id: what the outside refers to
    frame: Frame | None = None
    dialogue: Dialogue | None = None
    lease: Lease | None = None
    sealed: dict[str, str] | None = None  # what is secret in the result, by place: parts of a person's answer

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
    shares_outputs: bool = False  # a loop's iterations write where their loop stands
    next: str | None = None
    activation: Activation | None = None
    outputs: JsonObject = msgspec.field(default_factory=dict)
    last_output: JsonValue = None
    sealed: dict[str, dict[str, str]] = msgspec.field(
        default_factory=dict
    )  # secret parts of outputs, by node and place


class BufferedSignal(msgspec.Struct, frozen=True):
    """A signal that came before anybody waited for it."""

    name: str
    payload: JsonValue
    signal_id: str | None = None


class CompensationEntry(msgspec.Struct, frozen=True):
    """A completed node that must be undone if the run fails or is cancelled."""

    node_id: str
    visit: int
    arguments: JsonValue
    secrets: dict[str, str] | None = None
    failure: Failure | None = None  # why nobody knows how to undo it


class Child(msgspec.Struct, frozen=True):
    """A child run that has not reported its end."""

    child_id: str
    node_id: str
    visit: int
    workflow_ref: str
    input: JsonValue
    version_pin: str | None = None
    abandoned: bool = False  # its node is gone; the child is to be cancelled


class Continuation(msgspec.Struct, frozen=True):
    """The run that goes on in place of one that has ended."""

    run_id: str
    input: JsonValue
    newest: bool = False  # it gets the newest definition of the name, not the one of its predecessor


class Ending(msgspec.Struct, frozen=True):
    """The run is on its way to `failed` or `cancelled`."""

    outcome: Literal["failed", "cancelled"]
    failure: Failure | None = None
    reason: str | None = None
    node_id: str | None = None


# `gc=False`: as with activations, nothing in it leads back to it.
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
    client_kinds: tuple[str, ...] = ()  # what the program that started the run can be asked
    started_by: str | None = None  # the principal who started it
    starter: JsonObject | None = None  # their kind, credential (never the secret), and on whose behalf they act
    client_questions: int = 0  # how often it was asked
    untrusted: bool = False  # its history holds what somebody outside has said, see `trust`
    parent_run_id: str | None = None
    depth: int = 0
    input: JsonValue = None
    started_at: int = 0
    updated_at: int = 0
    deadline: int | None = None
    chain_deadline: int | None = None  # for the runs that continue this one too
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
    signal_ids: dict[str, None] = msgspec.field(default_factory=dict)  # in the order in which they came
    compensations: tuple[CompensationEntry, ...] = ()
    compensating: bool = False
    compensation_failures: tuple[Failure, ...] = ()
    children: dict[str, Child] = msgspec.field(default_factory=dict)
    paused: bool = False
    ending: Ending | None = None
    owed: Body | None = None  # an event that a command promised: it tells what was done, and is written next
    workflow_error_routed: bool = False
    error: JsonValue = None  # what jq sees as `error` after an error route
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
        """The id of the run that goes on in place of this one."""
        return None if self.continuation is None else self.continuation.run_id

    @property
    def should_continue(self) -> bool:
        """True when the history has become so long that the run should continue as a new one."""
        return self.seq >= limits.HISTORY_ROWS_ADVISED or self.history_bytes >= limits.HISTORY_BYTES_ADVISED

    @property
    def history_full(self) -> bool:
        """True when the history is as long as it may become."""
        return self.seq >= limits.HISTORY_ROWS_MAX or self.history_bytes >= limits.HISTORY_BYTES_MAX

    @property
    def terminal(self) -> bool:
        """True when nothing can happen any more."""
        return self.status in TERMINAL_STATUSES

    @property
    def unsettled(self) -> bool:
        """True when the history ends inside a decision: the engine has moves to make that need nobody."""
        if self.ready or self.owed is not None:
            return True
        return self.history_full and not self.terminal if self.ending is None else not self.compensating

    def copy(self) -> Self:
        """A state that can be evolved without touching this one."""
        twin = replace(self)
        twin.scopes = self.scopes.copy()
        twin.visits = self.visits.copy()
        twin.active = self.active.copy()
        twin.ready = self.ready.copy()
        twin.children = self.children.copy()
        return twin

    def activation(self, node_id: str, visit: int | None = None) -> Activation | None:
        """The live activation of a node: the one of that visit, or the newest."""
        serial = self.active.get((node_id, self.visits.get(node_id, 0) if visit is None else visit))
        return None if serial is None else self.scopes[serial].activation

    def activations(self) -> list[Activation]:
        """Every live activation, by scope in order of creation."""
        return [scope.activation for scope in self.scopes.values() if scope.activation is not None]

    def scope_of(self, key: Key) -> Scope | None:
        """The scope in which an activation lives."""
        serial = self.active.get(key)
        return None if serial is None else self.scopes[serial]
