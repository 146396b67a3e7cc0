"""The node types of native documents as tables: one shape per type, and what all nodes or all activities share.

Read by `schema`, and by whoever lists the node types. The shared pieces are in `fields`, the rest of a native document
is in `document`, the published format's nodes are in `published`.
"""

from dataclasses import dataclass, replace

from penstock.base.json import JsonObject
from penstock.base.limits import LOOP_ITERATIONS_MAX
from penstock.definitions.shapes.fields import (
    BOOLEAN,
    COUNT,
    OBJECT,
    STRING,
    TEXT,
    Condition,
    Field,
    Shape,
    array_of,
    choice,
    map_of,
    optional,
    pattern,
    ref,
    required,
)

__all__ = [
    "ACTIVITY_TABLES",
    "NODE_PART_SHAPES",
    "NODE_TABLES",
    "NODE_TYPE_HINTS",
    "NodeTable",
    "compensation_shape",
    "node_shape",
]

_STATUS_CODES = array_of({"type": "integer", "minimum": 100, "maximum": 599}, items_min=1)
_ITEMS: JsonObject = {"type": ["string", "array", "object"], "minLength": 1, "examples": [".input.orders"]}
_TOOLS = array_of({"type": ["string", "object"]})


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTable:
    """A kind of node: the table of its own fields, whether it is an activity, and whether another node follows it."""

    shape: Shape
    is_activity: bool = False
    has_successor: bool = True

    @property
    def name(self) -> str:
        """The word that a document writes as `type`."""
        return self.shape.name


_COMMON_FIELDS = (
    required("id", ref("node_id"), "A name for the node; later expressions read its output under this name."),
    optional("title", TEXT, "A title for people."),
    optional("description", TEXT, "What the node is for."),
    optional("metadata", OBJECT, "Anything your own tools need; never read here."),
    optional("on_error", ref("error_routes"), "What to do when the node fails."),
    optional("timeout", ref("duration"), "The longest the node may take."),
)
_NEXT_FIELD = optional("next", ref("next"), "The node that follows, if it is not the one listed after this.")
_RETRY_FIELD = optional("retry", ref("retry"), "How often, and how fast, a failure is tried again.")
_ACTIVITY_FIELDS = (
    _RETRY_FIELD,
    optional("output_schema", ref("json_schema"), "The JSON Schema of the output; enforced when it arrives."),
    optional(
        "effects",
        {**choice("at_least_once", "at_most_once"), "default": "at_least_once"},
        "Whether an unknown outcome is tried again, or waits for a decision.",
    ),
    optional("compensate", ref("compensate"), "The activity that undoes this one when the run fails later."),
    optional("idempotency_key", ref("template"), "A key for the receiver; one per node, visit and run if left out."),
)

_START = Shape(
    name="start",
    title="start",
    description="Where a run begins; may be left out.",
    fields=(optional("input_schema", ref("json_schema"), "The JSON Schema of the run's input."),),
)

_END = Shape(
    name="end",
    title="end",
    description="Ends the run with a result; there may be several.",
    fields=(
        optional("output", ref("template"), "The run's result."),
        optional("output_mapping", ref("jq"), "The run's result as one jq expression."),
        optional("output_schema", ref("json_schema"), "The JSON Schema of the result."),
    ),
    at_most_one=(("output", "output_mapping"),),
    hints={"next": "an end node has no successor", "result": "write `output`", "value": "write `output`"},
)

_STEP = Shape(
    name="step",
    title="step",
    description="Calls a function of your own.",
    fields=(
        optional("handler", {**STRING, "examples": ["shop.payments:refund"]}, "The function, as module:function."),
        optional("code_ref", STRING, "The function, by a reference that the host resolves."),
        optional("with", ref("template"), "The function's arguments."),
    ),
    exactly_one=(("handler", "code_ref"),),
    hints={
        "input": "write `with`",
        "arguments": "write `with`",
        "args": "write `with`",
        "function": "write `handler`",
        "run": "write `handler`",
        "server": "a call of a tool has `type: tool_call`",
        "tool": "a call of a tool has `type: tool_call`",
        "url": "a request has `type: http`",
    },
)

_LLM_CALL = Shape(
    name="llm_call",
    title="llm_call",
    description="Asks a language model; members not listed here are passed on to it.",
    fields=(
        required("model", STRING, "The model's name."),
        optional("provider", STRING, "Who serves the model; `client`: whoever calls the workflow over MCP."),
        optional("system_prompt", TEXT, "Standing instructions; may contain ${ jq }."),
        optional("prompt", TEXT, "The question; may contain ${ jq }."),
        optional("user_prompt", TEXT, "The same as `prompt`."),
        optional("temperature", {"type": "number", "minimum": 0}, "How much the answers vary."),
        optional("max_tokens", COUNT, "The longest answer."),
        optional("tools", _TOOLS, "The tools the model may use."),
    ),
    accepts_more=True,
    exactly_one=(("prompt", "user_prompt"),),
)

_TOOL_CALL = Shape(
    name="tool_call",
    title="tool_call",
    description="Calls a tool of an MCP server.",
    fields=(
        required("server", STRING, "The MCP server, by its configured name; `client`: whoever calls over MCP."),
        required("tool", STRING, "The tool's name; a client has one, `roots/list`."),
        optional("arguments", ref("template_object"), "The tool's arguments."),
    ),
    hints={
        "with": "write `arguments`",
        "input": "write `arguments`",
        "args": "write `arguments`",
        "params": "write `arguments`",
        "name": "write `tool`",
    },
)

_HTTP = Shape(
    name="http",
    title="http",
    description="Sends an HTTP request.",
    fields=(
        optional(
            "method",
            {**choice("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"), "default": "GET"},
            "The method.",
        ),
        required("url", {**STRING, "examples": ["https://api.example.com/orders/${ .input.id }"]}, "The address."),
        optional("headers", ref("template_object"), "The request's headers."),
        optional("query", ref("template_object"), "What is appended to the address as a query."),
        optional("body", ref("template"), "The body; anything but text is sent as JSON."),
        optional("retry_on_status", _STATUS_CODES, "Answers that count as failures worth another try."),
        optional("expect_status", _STATUS_CODES, "The answers that count as success; 200 to 299 if left out."),
        optional("follow_redirects", {**BOOLEAN, "default": False}, "Go where a redirect points; each hop is checked."),
    ),
    hints={
        "with": "write `body` or `query`",
        "json": "write `body`",
        "data": "write `body`",
        "params": "write `query`",
    },
)

_AGENT_DELEGATE = Shape(
    name="agent_delegate",
    title="agent_delegate",
    description="Hands a task to another agent.",
    fields=(
        required("agent_id", STRING, "The agent."),
        optional("protocol", {**choice("a2a", "mcp", "sdk"), "default": "a2a"}, "How the agent is reached."),
        optional("input", ref("template_object"), "What the agent is given."),
        optional("input_mapping", ref("template_object"), "The same as `input`."),
    ),
    at_most_one=(("input", "input_mapping"),),
    hints={"with": "write `input`", "arguments": "write `input`", "agent": "write `agent_id`"},
)

_SWITCH = Shape(
    name="switch",
    title="switch",
    description="Takes the first case that is true.",
    fields=(
        required("cases", array_of(ref("case"), items_min=1), "The ways out, tried in order."),
        optional("default", ref("target"), "The way out when no case is true; without it the run fails."),
    ),
    hints={"next": "a switch names its successors in `cases` and `default`", "else": "write `default`"},
)

_INTERRUPT = Shape(
    name="interrupt",
    title="interrupt",
    description="Asks a person and waits for the answer.",
    fields=(
        optional("message", STRING, "The question; may contain ${ jq }."),
        optional("prompt", STRING, "The same as `message`."),
        optional("prompt_ref", STRING, "The question, by a reference that the host resolves."),
        optional("answer", ref("json_schema"), "The JSON Schema of the answer; a form is made from it."),
        optional("resume_schema", ref("json_schema"), "The same as `answer`."),
        optional("decline", {"not": {"type": "null"}}, "The answer of who declines; else what says no in `answer`."),
        optional("approvers", ref("approvers"), "Who may answer; it is an approval then."),
        optional(
            "answered_by",
            {**choice("people", "anyone"), "default": "people"},
            "`people`: in a form, over REST or at the terminal. `anyone`: a model may answer by calling a tool, too.",
        ),
        optional("timeout", ref("duration"), "How long to wait for the answer."),
        optional("on_timeout", ref("target"), "The node that follows when nobody answered in time."),
    ),
    exactly_one=(("message", "prompt", "prompt_ref"),),
    at_most_one=(("answer", "resume_schema"), ("approvers", "answered_by")),
    needs=(("on_timeout", ("timeout",)),),
    hints={"question": "write `message`", "schema": "write `answer`", "text": "write `message`"},
)

_PARALLEL = Shape(
    name="parallel",
    title="parallel",
    description="Runs branches side by side and joins them.",
    fields=(
        required("branches", array_of(ref("branch"), items_min=1), "The branches."),
        optional(
            "join",
            {**choice("all", "any", "n_of_m"), "default": "all"},
            "How many branches must complete before the run goes on.",
        ),
        optional("n", COUNT, "The number of branches for n_of_m."),
        optional("concurrency", COUNT, "How many branches run at the same time; all of them if left out."),
    ),
    conditions=(Condition(field="join", equals="n_of_m", then_any=("n",)),),
)

_RACE = Shape(
    name="race",
    title="race",
    description="Runs branches side by side; the first that completes wins, the others are cancelled.",
    fields=(required("branches", array_of(ref("branch"), items_min=1), "The branches."),),
    hints={"join": "a race is always won by the first branch; use `parallel` to join several"},
)

_WAIT = Shape(
    name="wait",
    title="wait",
    description="Waits for a time or for a signal.",
    fields=(
        optional("kind", choice("duration", "until", "signal"), "What is waited for; follows from the other fields."),
        optional("duration", ref("duration"), "How long to wait."),
        optional("duration_ms", {"type": "integer", "minimum": 0}, "How long to wait, in milliseconds."),
        optional("until", ref("moment"), "The moment to wait for, as an ISO timestamp or a template."),
        optional("signal", STRING, "The signal to wait for."),
        optional("timeout", ref("duration"), "How long to wait for the signal."),
        optional("on_timeout", ref("target"), "The node that follows when the signal did not come in time."),
    ),
    exactly_one=(("duration", "duration_ms", "until", "signal"),),
    needs=(("timeout", ("signal",)), ("on_timeout", ("timeout",))),
    conditions=(
        Condition(field="kind", equals="duration", then_any=("duration", "duration_ms")),
        Condition(field="kind", equals="until", then_any=("until",)),
        Condition(field="kind", equals="signal", then_any=("signal",)),
    ),
    hints={"for": "write `duration`", "seconds": "write `duration: 30s`", "event": "write `signal`"},
)

_SET_STATE = Shape(
    name="set_state",
    title="set_state",
    description="Writes to the run's state; every expression sees the state as it was before.",
    fields=(
        optional("set", map_of(ref("template"), properties_min=1), "The keys to write, each with its value."),
        optional(
            "assignments", map_of(ref("assignment"), properties_min=1), "The same, each value as {jq} or {literal}."
        ),
    ),
    exactly_one=(("set", "assignments"),),
    hints={"values": "write `set`", "state": "write `set`"},
)

_SUBWORKFLOW = Shape(
    name="subworkflow",
    title="subworkflow",
    description="Runs another workflow and waits for its result.",
    fields=(
        optional("workflow", STRING, "The other workflow's name."),
        optional("workflow_ref", STRING, "The other workflow, by a reference that the host resolves."),
        optional("input", ref("template_object"), "The other run's input."),
        optional("input_mapping", ref("template_object"), "The same as `input`."),
        optional("version_pin", STRING, "The hash that the other definition must have."),
        _RETRY_FIELD,
    ),
    exactly_one=(("workflow", "workflow_ref"),),
    at_most_one=(("input", "input_mapping"),),
    hints={"with": "write `input`", "arguments": "write `input`", "name": "write `workflow`"},
)

_FOR_EACH = Shape(
    name="for_each",
    title="for_each",
    description="Runs its nodes once per item of a list; the results keep the list's order.",
    fields=(
        required("items", _ITEMS, "The list: a jq expression, or a template that gives one."),
        optional("as", ref("item_name"), "The name of the current item in expressions."),
        optional("concurrency", {**COUNT, "default": 1}, "How many items run at the same time."),
        optional(
            "on_item_error",
            {**choice("fail", "skip", "collect"), "default": "fail"},
            "What a failed item does: fail the node, be left out, or stand in the results as an error.",
        ),
        optional("result", ref("template"), "The result of one item; its last output if left out."),
        required("nodes", ref("nodes"), "What is done for each item."),
    ),
    hints={"in": "write `items`", "list": "write `items`", "steps": "write `nodes`", "do": "write `nodes`"},
)

_LOOP = Shape(
    name="loop",
    title="loop",
    description="Repeats its nodes, at most a given number of times.",
    fields=(
        required("nodes", ref("nodes"), "What is repeated."),
        optional("while", ref("jq"), "Go on as long as this is true; looked at before each round."),
        optional("until", ref("jq"), "Stop when this is true; looked at after each round."),
        required(
            "max_iterations",
            {**COUNT, "maximum": LOOP_ITERATIONS_MAX, "examples": [10]},
            "The most rounds.",
        ),
        optional(
            "on_exhausted",
            {**choice("fail", "continue"), "default": "fail"},
            "What happens after the last round if the condition still asks for more.",
        ),
    ),
    exactly_one=(("while", "until"),),
    hints={"steps": "write `nodes`", "do": "write `nodes`", "times": "write `max_iterations`"},
)

_EMIT = Shape(
    name="emit",
    title="emit",
    description="Sends a signal to another run.",
    fields=(
        required("run", ref("template"), "The id of the run that gets the signal."),
        required("signal", STRING, "The signal's name."),
        optional("payload", ref("template"), "What the signal carries."),
    ),
    hints={"to": "write `run`", "with": "write `payload`", "name": "write `signal`"},
)

_FAIL = Shape(
    name="fail",
    title="fail",
    description="Ends the run, or the branch, with an error of your own.",
    fields=(
        required("code", pattern("^[A-Z][A-Z0-9_]*$", "ORDER_NOT_FOUND"), "The error's code."),
        optional("message", ref("template"), "What went wrong, for people."),
    ),
    hints={"next": "a fail node has no successor", "reason": "write `message`", "error": "write `code`"},
)

_CONTINUE_AS_NEW = Shape(
    name="continue_as_new",
    title="continue_as_new",
    description="Ends the run and starts the next one of the same workflow, with an empty history.",
    fields=(
        required("input", ref("template"), "The next run's input; what it must remember has to be in it."),
        optional("version", {**choice("pinned", "newest"), "default": "pinned"}, "The definition of the next run."),
    ),
    hints={"next": "a continue_as_new node has no successor", "with": "write `input`", "state": "write `input`"},
)

_BRANCH = Shape(
    name="branch",
    title="Branch",
    description="One of the paths that run side by side.",
    fields=(
        required("name", STRING, "The branch's name."),
        optional("nodes", ref("nodes"), "What the branch does."),
        optional("entry", STRING, "The branch's first node, when the nodes stand outside."),
    ),
    exactly_one=(("nodes", "entry"),),
    hints={"id": "write `name`", "steps": "write `nodes`"},
)

_ASSIGNMENT = Shape(
    name="assignment",
    title="Assignment",
    description="A new value, computed or literal.",
    fields=(
        optional("jq", ref("jq"), "The value, as a jq expression."),
        optional("literal", {}, "The value, as it is."),
    ),
    exactly_one=(("jq", "literal"),),
)

NODE_TABLES = (
    NodeTable(shape=_START),
    NodeTable(shape=_END, has_successor=False),
    NodeTable(shape=_STEP, is_activity=True),
    NodeTable(shape=_LLM_CALL, is_activity=True),
    NodeTable(shape=_TOOL_CALL, is_activity=True),
    NodeTable(shape=_HTTP, is_activity=True),
    NodeTable(shape=_AGENT_DELEGATE, is_activity=True),
    NodeTable(shape=_SWITCH, has_successor=False),
    NodeTable(shape=_INTERRUPT),
    NodeTable(shape=_PARALLEL),
    NodeTable(shape=_RACE),
    NodeTable(shape=_WAIT),
    NodeTable(shape=_SET_STATE),
    NodeTable(shape=_SUBWORKFLOW),
    NodeTable(shape=_FOR_EACH),
    NodeTable(shape=_LOOP),
    NodeTable(shape=_EMIT),
    NodeTable(shape=_FAIL, has_successor=False),
    NodeTable(shape=_CONTINUE_AS_NEW, has_successor=False),
)
ACTIVITY_TABLES = tuple(table for table in NODE_TABLES if table.is_activity)
NODE_PART_SHAPES = (_BRANCH, _ASSIGNMENT)

# Words that other tools use for a node type, with what to write here.
NODE_TYPE_HINTS = {
    other: f"write `{name}`"
    for name, others in {
        "step": ("function", "script", "task", "action", "code", "python"),
        "llm_call": ("llm", "prompt", "model", "chat", "completion"),
        "tool_call": ("tool", "mcp", "call"),
        "http": ("request", "fetch", "rest", "api"),
        "agent_delegate": ("agent", "delegate", "a2a"),
        "switch": ("if", "condition", "choice", "branch", "router", "decision"),
        "interrupt": ("approval", "approve", "human", "ask", "question", "form", "input", "review"),
        "parallel": ("fork", "concurrent", "all"),
        "wait": ("sleep", "delay", "timer", "await", "listen"),
        "set_state": ("set", "assign", "state", "variables"),
        "subworkflow": ("workflow", "child", "sub_workflow"),
        "for_each": ("map", "each", "for", "iterate"),
        "loop": ("while", "repeat", "until"),
        "emit": ("signal", "send", "publish", "event"),
        "fail": ("error", "throw", "raise", "abort"),
        "end": ("return", "stop", "finish", "done", "result"),
        "continue_as_new": ("continue", "restart", "again"),
    }.items()
    for other in others
}


def node_shape(table: NodeTable) -> Shape:
    """All that may stand in a node of this type, beside `config`."""
    shared = (
        *_COMMON_FIELDS,
        *((_NEXT_FIELD,) if table.has_successor else ()),
        *(_ACTIVITY_FIELDS if table.is_activity else ()),
    )
    type_field = required("type", {"const": table.name}, "The node's type.")
    fields = _by_name((*shared[:1], type_field, *table.shape.fields, *shared[1:]))
    return replace(table.shape, name=f"node_{table.name}", fields=fields)


def compensation_shape(table: NodeTable) -> Shape:
    """All that may stand in a compensation of this type: an activity without an id."""
    fields = _by_name(
        (
            optional(
                "type",
                {"const": table.name},
                "The type of the activity; may be left out for a step, a tool_call and an http request.",
            ),
            *table.shape.fields,
            _RETRY_FIELD,
            optional("timeout", ref("duration"), "The longest the activity may take."),
        )
    )
    return replace(table.shape, name=f"compensate_{table.name}", fields=fields)


def _by_name(fields: tuple[Field, ...]) -> tuple[Field, ...]:
    # A type's own description of a shared field comes first, and is the more precise one.
    found: dict[str, Field] = {}
    for member in fields:
        found.setdefault(member.name, member)
    return tuple(found.values())
