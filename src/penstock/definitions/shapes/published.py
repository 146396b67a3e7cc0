"""The published definition format as tables: twelve node types with a `config` block, edges and a state schema.

Read by `schema`. The published format is accepted as it is; the one addition is the signature block, which that format
uses without listing it. Names of pieces begin with `published_`, so that both formats fit into one schema file.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.base.json import JsonObject
from penstock.definitions.shapes.fields import (
    ANYTHING,
    COUNT,
    EDGE,
    OBJECT,
    SIGNATURE,
    STRING,
    TEXT,
    Condition,
    Shape,
    array_of,
    choice,
    map_of,
    optional,
    ref,
    required,
)

__all__ = [
    "PUBLISHED_DOCUMENT",
    "PUBLISHED_FRAGMENTS",
    "PUBLISHED_NODE_TABLES",
    "PUBLISHED_SHAPES",
    "PublishedNodeTable",
    "published_node_shape",
]

# The published schema asks less of these than the format's prose does; the checks ask for the rest.
PUBLISHED_FRAGMENTS: Mapping[str, JsonObject] = {
    "published_duration": {**STRING, "description": "A length of time, such as 30s or 24h.", "examples": ["30s"]},
    "published_interval": {**TEXT, "description": "A length of time, such as 500ms or 10s.", "examples": ["10s"]},
    "published_checkpoint_strategy": {**TEXT, "description": "When the run's state is stored in full."},
    "published_json_schema": {**OBJECT, "description": "A JSON Schema."},
    "published_answer_schema": {**OBJECT, "minProperties": 1, "description": "A JSON Schema of the answer."},
    "published_state_schema": {
        **OBJECT,
        "minProperties": 1,
        "description": "A JSON Schema of the run's state; each property may name its reducer.",
    },
    "published_any_schema": {"description": "A JSON Schema."},
}

_RETRY = Shape(
    name="published_retry",
    title="Retry policy",
    description="How often, and how fast, a failed activity is tried again.",
    fields=(
        required("max_attempts", COUNT, "The number of tries in all."),
        optional("initial_interval", ref("published_interval"), "The delay before the second try."),
        optional("backoff_coefficient", {"type": "number"}, "The factor by which the delay grows."),
        optional("max_interval", ref("published_interval"), "The longest delay between two tries."),
        optional("non_retryable_errors", array_of(TEXT), "Error codes that end the activity at once."),
    ),
)

_HEADER = Shape(
    name="published_header",
    title="Document header",
    description="What the workflow is called.",
    fields=(
        required("schema", STRING, "The address of the format's version."),
        required("name", STRING, "The workflow's name."),
        required("version", STRING, "The version of this definition."),
        optional("description", TEXT, "What the workflow does."),
        optional("signature", ref("published_signature"), "A signature of the document."),
    ),
)

_CHECKPOINTING = Shape(
    name="published_checkpointing",
    title="Checkpointing",
    description="When the run's state is stored in full.",
    fields=(
        optional("strategy", ref("published_checkpoint_strategy"), "after_each_node, every_n_nodes or disabled."),
        optional("policy", ref("published_checkpoint_strategy"), "The same as `strategy`."),
        optional("n", COUNT, "The number of nodes between two checkpoints."),
        optional("interval", COUNT, "The same as `n`."),
    ),
    accepts_more=True,
)

_CASE = Shape(
    name="published_case",
    title="Case",
    description="One way out of a switch; the first case that is true is taken.",
    fields=(
        required("when", STRING, "The condition, as a jq expression on the state."),
        required("target", STRING, "The node that follows when the condition is true."),
    ),
    hints={"next": "the published format writes `target`"},
)

_BRANCH = Shape(
    name="published_branch",
    title="Branch",
    description="One of the paths between a parallel node and its join target.",
    fields=(
        required("name", STRING, "The branch's name."),
        required("entry", STRING, "The branch's first node."),
    ),
)

_ASSIGNMENT = Shape(
    name="published_assignment",
    title="Assignment",
    description="A new value, computed or literal.",
    fields=(
        optional("jq", STRING, "The value, as a jq expression on the state."),
        optional("literal", ANYTHING, "The value, as it is."),
    ),
    exactly_one=(("jq", "literal"),),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedNodeTable:
    """A node type of the published format: the table of its `config` block, and whether the block has to be there."""

    config: Shape
    config_required: bool = True

    @property
    def name(self) -> str:
        """The word that a document writes as `type`."""
        return self.config.name.removeprefix("published_config_")


_START = Shape(
    name="published_config_start",
    title="config of start",
    description="Where a run begins.",
    fields=(optional("input_schema", ref("published_json_schema"), "The JSON Schema of the run's input."),),
)

_END = Shape(
    name="published_config_end",
    title="config of end",
    description="Ends the run with a result.",
    fields=(
        optional("output_schema", ref("published_json_schema"), "The JSON Schema of the result."),
        optional("output_mapping", STRING, "The result, as a jq expression on the state."),
    ),
)

_STEP = Shape(
    name="published_config_step",
    title="config of step",
    description="Calls a function of your own.",
    fields=(
        optional("handler", ANYTHING, "The function."),
        optional("code_ref", ANYTHING, "The function, by a reference that the host resolves."),
    ),
    accepts_more=True,
    at_least_one=(("handler", "code_ref"),),
)

_LLM_CALL = Shape(
    name="published_config_llm_call",
    title="config of llm_call",
    description="Asks a language model.",
    fields=(
        optional("model", ANYTHING, "The model's name."),
        optional("system_prompt", ANYTHING, "Standing instructions."),
        optional("user_prompt", ANYTHING, "The question."),
        optional("prompt", ANYTHING, "The same as `user_prompt`."),
        optional("output_schema", ref("published_any_schema"), "The JSON Schema of the output."),
    ),
    accepts_more=True,
)

_TOOL_CALL = Shape(
    name="published_config_tool_call",
    title="config of tool_call",
    description="Calls a tool of an MCP server.",
    fields=(
        required("server", STRING, "The MCP server that has the tool."),
        required("tool", STRING, "The tool's name."),
        optional("arguments", OBJECT, "The tool's arguments."),
    ),
)

_SWITCH = Shape(
    name="published_config_switch",
    title="config of switch",
    description="Takes the first case that is true.",
    fields=(
        required("cases", array_of(ref("published_case"), items_min=1), "The ways out, tried in order."),
        optional("default", STRING, "The way out when no case is true."),
    ),
)

_INTERRUPT = Shape(
    name="published_config_interrupt",
    title="config of interrupt",
    description="Asks a person and waits for the answer.",
    fields=(
        required("resume_schema", ref("published_answer_schema"), "The JSON Schema of the answer."),
        optional("prompt", STRING, "The question."),
        optional("prompt_ref", STRING, "The question, by a reference that the host resolves."),
        optional("timeout", ref("published_duration"), "How long to wait for the answer."),
    ),
    at_least_one=(("prompt", "prompt_ref"),),
)

_PARALLEL = Shape(
    name="published_config_parallel",
    title="config of parallel",
    description="Runs branches one after another and joins them.",
    fields=(
        required("join", choice("all", "any", "n_of_m"), "How many branches must complete."),
        optional("n", COUNT, "The number of branches for n_of_m."),
        required("branches", array_of(ref("published_branch"), items_min=1), "The branches."),
        optional("timeout", ref("published_duration"), "The longest the branches may take."),
    ),
    conditions=(Condition(field="join", equals="n_of_m", then_any=("n",)),),
    hints={"concurrency": "branches run side by side in the native format, `penstock: v1`"},
)

_WAIT = Shape(
    name="published_config_wait",
    title="config of wait",
    description="Waits for a time or for a signal.",
    fields=(
        required("kind", choice("duration", "until", "signal"), "What is waited for."),
        optional("duration_ms", {"type": "integer", "minimum": 0}, "How long to wait, in milliseconds."),
        optional("duration", ref("published_duration"), "How long to wait."),
        optional("until", STRING, "The moment to wait for, as an ISO timestamp."),
        optional("signal", STRING, "The signal to wait for."),
    ),
    conditions=(
        Condition(field="kind", equals="duration", then_any=("duration_ms", "duration")),
        Condition(field="kind", equals="until", then_any=("until",)),
        Condition(field="kind", equals="signal", then_any=("signal",)),
    ),
)

_SET_STATE = Shape(
    name="published_config_set_state",
    title="config of set_state",
    description="Writes to the run's state.",
    fields=(
        required(
            "assignments",
            map_of(ref("published_assignment"), properties_min=1),
            "The keys to write, each as {jq} or {literal}.",
        ),
    ),
)

_SUBWORKFLOW = Shape(
    name="published_config_subworkflow",
    title="config of subworkflow",
    description="Runs another workflow and waits for its result.",
    fields=(
        required("workflow_ref", STRING, "The other workflow."),
        required("input_mapping", OBJECT, "The other run's input, per key."),
        optional("version_pin", STRING, "The hash that the other definition must have."),
    ),
)

_AGENT_DELEGATE = Shape(
    name="published_config_agent_delegate",
    title="config of agent_delegate",
    description="Hands a task to another agent.",
    fields=(
        required("agent_id", STRING, "The agent."),
        required("protocol", choice("a2a", "mcp", "sdk"), "How the agent is reached."),
        required("input_mapping", OBJECT, "What the agent is given, per key."),
    ),
)

PUBLISHED_NODE_TABLES = (
    PublishedNodeTable(config=_START, config_required=False),
    PublishedNodeTable(config=_END, config_required=False),
    PublishedNodeTable(config=_STEP),
    PublishedNodeTable(config=_LLM_CALL),
    PublishedNodeTable(config=_TOOL_CALL),
    PublishedNodeTable(config=_SWITCH),
    PublishedNodeTable(config=_INTERRUPT),
    PublishedNodeTable(config=_PARALLEL),
    PublishedNodeTable(config=_WAIT),
    PublishedNodeTable(config=_SET_STATE),
    PublishedNodeTable(config=_SUBWORKFLOW),
    PublishedNodeTable(config=_AGENT_DELEGATE),
)

PUBLISHED_DOCUMENT = Shape(
    name="published_document",
    title="Published workflow definition",
    description="A workflow in the published format.",
    fields=(
        required("document", ref("published_header"), "What the workflow is called."),
        required("state_schema", ref("published_state_schema"), "The JSON Schema of the state, with reducers."),
        required("nodes", ref("published_nodes"), "The nodes; `edges` give their order."),
        required("edges", array_of(ref("published_edge")), "The connections between the nodes."),
        optional("checkpointing", ref("published_checkpointing"), "When the run's state is stored in full."),
    ),
    hints={
        name: "this belongs to the native format, which begins with `penstock: v1`"
        for name in (
            "name",
            "input",
            "output",
            "state",
            "secrets",
            "on_error",
            "expose",
            "governance",
            "triggers",
            "tests",
        )
    },
)

PUBLISHED_SHAPES = (
    _RETRY,
    _HEADER,
    _CHECKPOINTING,
    _CASE,
    _BRANCH,
    _ASSIGNMENT,
    replace(EDGE, name="published_edge"),
    replace(SIGNATURE, name="published_signature"),
)


def published_node_shape(table: PublishedNodeTable) -> Shape:
    """A node of this type; its own fields stand inside `config`."""
    config_field = required if table.config_required else optional
    fields = (
        required("id", STRING, "The node's name."),
        required("type", {"const": table.name}, "The node's type."),
        config_field("config", ref(table.config.name), "The node's own fields."),
        optional("retry", ref("published_retry"), "How often, and how fast, a failure is tried again."),
        optional("timeout", ref("published_duration"), "The longest the node may take."),
        optional("metadata", OBJECT, "Anything your own tools need; never read here."),
    )
    inside = {member.name for member in table.config.fields} - {member.name for member in fields}
    return Shape(
        name=f"published_node_{table.name}",
        title=table.name,
        description=table.config.description,
        fields=fields,
        hints={name: "the published format puts this inside `config`" for name in sorted(inside)},
    )
