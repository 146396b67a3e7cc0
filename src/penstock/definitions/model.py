"""The compiled workflow: one model for published and native documents, ready for the engine to walk.

Above it: the engine and the runtime. Below it: `build.workflow` makes it from an outline. Its expressions, templates
and schemas are already compiled. It has no behaviour beyond look-ups and knows nothing about runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

import msgspec

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.jq.expressions import Expression
from penstock.definitions.jq.templates import Template
from penstock.definitions.schemas.compiled import CompiledSchema

__all__ = [
    "ACTIVITY_TYPES",
    "PUBLISHED_TYPES",
    "ActivityDetail",
    "Case",
    "Checkpointing",
    "Compensation",
    "ContinueDetail",
    "EmitDetail",
    "EndDetail",
    "ErrorRoute",
    "FailDetail",
    "ForEachDetail",
    "Format",
    "InterruptDetail",
    "ItemErrorPolicy",
    "Join",
    "LoopDetail",
    "Node",
    "NodeDetail",
    "NodeType",
    "ParallelDetail",
    "Retry",
    "RunBody",
    "SetStateDetail",
    "StartDetail",
    "SubworkflowDetail",
    "Successor",
    "SwitchDetail",
    "WaitDetail",
    "WaitKind",
    "Workflow",
]


class Format(StrEnum):
    """Which document format a workflow was written in."""

    PUBLISHED = "published"
    NATIVE = "native"


class NodeType(StrEnum):
    """The closed set of node types, in the order in which the documentation presents them."""

    START = "start"
    END = "end"
    STEP = "step"
    LLM_CALL = "llm_call"
    TOOL_CALL = "tool_call"
    HTTP = "http"
    QUERY = "query"
    AGENT_DELEGATE = "agent_delegate"
    SWITCH = "switch"
    INTERRUPT = "interrupt"
    PARALLEL = "parallel"
    RACE = "race"
    WAIT = "wait"
    SET_STATE = "set_state"
    SUBWORKFLOW = "subworkflow"
    FOR_EACH = "for_each"
    LOOP = "loop"
    EMIT = "emit"
    FAIL = "fail"
    CONTINUE_AS_NEW = "continue_as_new"


ACTIVITY_TYPES = frozenset(
    {
        NodeType.STEP,
        NodeType.LLM_CALL,
        NodeType.TOOL_CALL,
        NodeType.AGENT_DELEGATE,
        NodeType.HTTP,
        NodeType.QUERY,
    }
)
# Types with outside work: by a model, a tool, an agent or an HTTP server. Their answers are not trusted.
OUTSIDE_TYPES = ACTIVITY_TYPES - {NodeType.STEP, NodeType.QUERY}
# The node types of the published format, in its order. That format is closed: a new type belongs to the native one.
PUBLISHED_TYPES = (
    NodeType.START,
    NodeType.END,
    NodeType.STEP,
    NodeType.LLM_CALL,
    NodeType.TOOL_CALL,
    NodeType.SWITCH,
    NodeType.INTERRUPT,
    NodeType.PARALLEL,
    NodeType.WAIT,
    NodeType.SET_STATE,
    NodeType.SUBWORKFLOW,
    NodeType.AGENT_DELEGATE,
)


class Join(StrEnum):
    """When a parallel node is done."""

    ALL = "all"
    ANY = "any"
    N_OF_M = "n_of_m"


class ItemErrorPolicy(StrEnum):
    """What a failed item does to its for_each."""

    FAIL = "fail"
    SKIP = "skip"
    COLLECT = "collect"


class WaitKind(StrEnum):
    """What a wait node waits for."""

    DURATION = "duration"
    UNTIL = "until"
    SIGNAL = "signal"


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """How often and how fast a failed attempt is tried again."""

    max_attempts: int = 1
    initial_interval_ms: int = 0
    backoff_coefficient: float = 1.0
    max_interval_ms: int | None = None
    max_elapsed_ms: int | None = None
    jitter: bool = False
    non_retryable_errors: frozenset[str] = frozenset()


class ErrorRoute(msgspec.Struct, frozen=True, kw_only=True):
    """Where a failure goes. An empty `codes` matches every code; exactly one of `target` and `fallback` is used."""

    codes: frozenset[str] = frozenset()
    target: str | None = None
    leaves_body: bool = False
    fallback: Template | None = None


class Successor(msgspec.Struct, frozen=True, kw_only=True):
    """Where a node goes when it is done. `when` chooses between `target` and `otherwise`; None leaves the body."""

    target: str | None
    when: Expression | None = None
    otherwise: str | None = None


class Compensation(msgspec.Struct, frozen=True, kw_only=True):
    """The activity that undoes a completed node."""

    type: NodeType
    config: JsonObject
    arguments: Template
    retry: Retry
    timeout_ms: int | None = None


class StartDetail(msgspec.Struct, frozen=True, kw_only=True):
    """The entry of a published document."""


class EndDetail(msgspec.Struct, frozen=True, kw_only=True):
    """Ends the run with a result: a template, a jq expression, or the whole state."""

    output: Template | None
    output_schema: CompiledSchema | None


class FailDetail(msgspec.Struct, frozen=True, kw_only=True):
    """Fails on purpose with a code."""

    code: str
    message: Template


class ContinueDetail(msgspec.Struct, frozen=True, kw_only=True):
    """Ends the run and starts another one in its place, with an empty history."""

    input: Template
    newest: bool  # the next run gets the newest definition of the name, not this one


class ActivityDetail(msgspec.Struct, frozen=True, kw_only=True):
    """Work that a run asks an executor to do."""

    config: JsonObject  # what an executor needs, as written
    arguments: Template | None  # rendered before the call; None: nothing to render
    agent_id: str | None = None
    protocol: str | None = None
    at_most_once: bool = False
    idempotency_key: Template | None = None  # None: derived from run, node and visit
    compensate: Compensation | None = None


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One case of a switch."""

    when: Expression
    target: str | None


class SwitchDetail(msgspec.Struct, frozen=True, kw_only=True):
    """Chooses the successor; the first truthy case wins."""

    cases: tuple[Case, ...]
    default: str | None
    has_default: bool


class InterruptDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A question to a person."""

    prompt: Template
    prompt_ref: str | None
    answer_schema: CompiledSchema
    answer_schema_json: JsonObject
    approvers: JsonObject | None
    escalate_ms: int | None  # after which time others are asked, too
    anyone: bool  # whether a model may answer, by calling a tool
    decline: JsonValue  # the answer that means "declined", if the document names one
    on_timeout: str | None
    has_timeout_route: bool


class ParallelDetail(msgspec.Struct, frozen=True, kw_only=True):
    """Several bodies that run side by side or, with a concurrency of 1, one after the other on one state."""

    join: Join
    needed: int  # how many branches must complete
    bodies: tuple[str, ...]
    concurrency: int


class WaitDetail(msgspec.Struct, frozen=True, kw_only=True):
    """Waits for time to pass or for a signal."""

    kind: WaitKind
    duration_ms: int | None = None
    until: Template | None = None
    signal: str | None = None
    on_timeout: str | None = None
    has_timeout_route: bool = False


class SetStateDetail(msgspec.Struct, frozen=True, kw_only=True):
    """Writes state keys; every template sees the state from before the node."""

    assignments: tuple[tuple[str, Template], ...]


class SubworkflowDetail(msgspec.Struct, frozen=True, kw_only=True):
    """Runs another workflow as a child run."""

    workflow_ref: str
    input: Template
    version_pin: str | None


class ForEachDetail(msgspec.Struct, frozen=True, kw_only=True):
    """Runs its body once per item."""

    items: Template
    item_name: str
    concurrency: int
    on_item_error: ItemErrorPolicy
    result: Template | None
    body: str


class LoopDetail(msgspec.Struct, frozen=True, kw_only=True):
    """Runs its body again while a condition holds, at most `iterations_max` times."""

    condition: Expression
    until: bool  # True: test after each iteration and stop when it holds; False: test before, continue while it holds
    iterations_max: int
    fail_when_exhausted: bool
    body: str


class EmitDetail(msgspec.Struct, frozen=True, kw_only=True):
    """Sends a signal to another run."""

    run: Template
    signal: str
    payload: Template


NodeDetail: TypeAlias = (
    StartDetail
    | EndDetail
    | FailDetail
    | ContinueDetail
    | ActivityDetail
    | SwitchDetail
    | InterruptDetail
    | ParallelDetail
    | WaitDetail
    | SetStateDetail
    | SubworkflowDetail
    | ForEachDetail
    | LoopDetail
    | EmitDetail
)


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A node of any type; what is specific to the type is in `detail`."""

    id: str
    type: NodeType
    body: str
    path: str
    detail: NodeDetail
    successor: Successor | None
    retry: Retry
    timeout_ms: int | None = None
    on_error: tuple[ErrorRoute, ...] = ()
    output_schema: CompiledSchema | None = None
    output_schema_json: JsonObject | None = None


class RunBody(msgspec.Struct, frozen=True, kw_only=True):
    """A body in the form that the engine walks."""

    id: str
    name: str
    owner: str | None
    entry: str
    exit_target: str | None


class Checkpointing(msgspec.Struct, frozen=True, kw_only=True):
    """When `CheckpointWritten` rows are written."""

    strategy: str  # after_each_node, every_n_nodes, disabled
    interval_nodes: int = 1
    declared: bool = False


class AgentLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent, and everything that its run starts, may use of models. None: as much as it takes."""

    turns: int | None = None
    tokens: int | None = None
    cost: int | None = None  # in billionths of a US dollar
    time_ms: int | None = None  # from the first turn on


class Workflow(msgspec.Struct, frozen=True, kw_only=True):
    """A compiled document, identified by its hash."""

    format: Format
    name: str
    version: str
    hash: str
    document: JsonObject
    nodes: Mapping[str, Node]
    bodies: Mapping[str, RunBody]
    input_schema: CompiledSchema | None
    input_schema_json: JsonObject | None
    output_schema: CompiledSchema | None
    state_schema: CompiledSchema | None
    state_schema_json: JsonObject | None
    reducers: Mapping[str, str]
    checkpointing: Checkpointing
    timeout_ms: int | None = None
    on_error: tuple[ErrorRoute, ...] = ()
    title: str | None = None
    description: str | None = None
    secrets: frozenset[str] = frozenset()
    expose: JsonObject = msgspec.field(default_factory=dict)
    governance: JsonObject = msgspec.field(default_factory=dict)
    triggers: tuple[JsonObject, ...] = ()
    tests: tuple[JsonObject, ...] = ()
    initial_state: JsonValue = None
    limits: AgentLimits | None = None  # of an agent

    @property
    def native(self) -> bool:
        """Whether the document is in Penstock's own format."""
        return self.format is Format.NATIVE
