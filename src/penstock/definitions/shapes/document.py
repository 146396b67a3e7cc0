"""The top level of a native document as tables: name, schemas, exposure, governance, triggers and tests.

Read by `editor_schema`. Other packages act on `expose`, `governance`, `triggers` and `tests`; here they only have a
shape. The nodes are in `nodes`, the published format is in `published`.
"""

from penstock.definitions.shapes.agent import AGENT_SHAPES
from penstock.definitions.shapes.exposure import EXPOSURE_SHAPES
from penstock.definitions.shapes.fields import (
    ANYTHING,
    BOOLEAN,
    COUNT,
    OBJECT,
    STRING,
    STRINGS,
    TEXT,
    Condition,
    Shape,
    array_of,
    choice,
    map_of,
    optional,
    pattern,
    ref,
    required,
)

__all__ = ["DOCUMENT", "DOCUMENT_SHAPES", "RUN_STATUSES"]

RUN_STATUSES = (
    "pending",
    "running",
    "paused",
    "waiting_input",
    "waiting_approval",
    "waiting_activity",
    "waiting_signal",
    "waiting_child",
    "waiting_timer",
    "waiting_decision",
    "compensating",
    "completed",
    "failed",
    "cancelling",
    "cancelled",
)

_METHOD = choice("GET", "POST", "PUT", "PATCH", "DELETE")

_DEFAULTS = Shape(
    name="defaults",
    title="Defaults",
    description="Defaults for activities, including compensations.",
    fields=(
        optional("retry", ref("retry"), "The retry policy of activities without their own."),
        optional("timeout", ref("duration"), "The timeout of activities without their own."),
    ),
)

_RATE = Shape(
    name="rate",
    title="Rate",
    description="How often the workflow may be started: a burst of `limit`, refilled over `per`.",
    fields=(
        required("limit", COUNT, "The number of starts."),
        required("per", ref("duration"), "The time in which as many more may start."),
        optional("bucket", STRING, "The bucket that is counted; workflows of a tenant with the same bucket share it."),
    ),
)

_GOVERNANCE = Shape(
    name="governance",
    title="Governance",
    description="The rules that the gate applies to calls of the workflow.",
    fields=(
        optional("risk", choice("low", "medium", "high", "critical"), "The harm that a wrong call can do."),
        optional("scopes", STRINGS, "The scopes a caller must have."),
        optional("confirm", {**BOOLEAN, "default": False}, "Ask the caller to confirm before the run starts."),
        optional("draft", choice("never", "always", "on_risk"), "Whether a call waits as a draft for approval."),
        optional("rate", ref("rate"), "How often the workflow may be started."),
        optional("approvers", ref("approvers"), "Who may approve a draft."),
        optional("data", STRINGS, "The kinds of data the workflow handles."),
    ),
)

_SCHEDULE = Shape(
    name="schedule",
    title="Schedule",
    description="Starts runs on a schedule.",
    fields=(
        required("cron", {**STRING, "examples": ["0 6 * * 1-5"]}, "The times, as a cron expression."),
        optional(
            "timezone", {**STRING, "default": "UTC", "examples": ["Europe/Berlin"]}, "The time zone of the times."
        ),
        optional(
            "overlap",
            {**choice("skip", "queue", "allow", "cancel_running"), "default": "skip"},
            "What happens if the previous run has not ended.",
        ),
        optional("catch_up", ref("duration"), "How late a missed start may still happen."),
        optional("jitter", ref("duration"), "Starts are spread over this time."),
    ),
)

_VERIFY = Shape(
    name="verify",
    title="Verification",
    description="How a request proves that its sender knows the secret.",
    fields=(
        optional(
            "strategy",
            {**choice("hmac", "github", "stripe", "standard", "none"), "default": "hmac"},
            "How requests are signed; `none` only where the operator allows it.",
        ),
        optional(
            "header",
            pattern("^[A-Za-z0-9-]{1,64}$", "X-Signature"),
            "The header with the signature, if not the default.",
        ),
        optional("skew", ref("duration"), "How old a signature may be, where it carries a time; 5m unless given."),
    ),
    hints={"secret": "write `secret` beside `verify`", "type": "write `strategy`"},
)

_PATH_PART = "[A-Za-z0-9_][A-Za-z0-9_~.-]*"

_WEBHOOK = Shape(
    name="webhook",
    title="Webhook",
    description="Starts or signals a run by a request; jq reads its .body, .headers, .query, .method and .path.",
    fields=(
        required(
            "path",
            pattern(f"^/?{_PATH_PART}(/{_PATH_PART})*$", "/hooks/orders"),
            "The path the request is sent to, below /hooks.",
        ),
        optional("method", {**_METHOD, "default": "POST"}, "The method of the request."),
        optional(
            "secret",
            pattern(r"^\$\{secret:[A-Z][A-Z0-9_]*\}$", "${secret:WEBHOOK_KEY}"),
            "The secret that signs requests, by reference.",
        ),
        optional("verify", ref("verify"), "How requests are signed, if not in Penstock's format."),
        optional("schema", ref("json_schema"), "The JSON Schema of the request's body; others are refused."),
        optional("dedupe", ref("jq"), "The part of the request that makes it unique; repeats are ignored."),
        optional("filter", ref("jq"), "Requests for which this is false or null are ignored."),
        optional("action", {**choice("start", "signal"), "default": "start"}, "Start a run, or signal one."),
        optional("run", ref("jq"), "The id of the run: the one to signal, or the one to start."),
        optional("signal", STRING, "The name of the signal, for the action `signal`."),
    ),
    conditions=(
        Condition(field="action", equals="signal", then_any=("signal",)),
        Condition(field="action", equals="signal", then_any=("run",)),
    ),
    hints={"input": "write `input` beside `webhook`", "execution_id": "write `run`"},
)

_TRIGGER = Shape(
    name="trigger",
    title="Trigger",
    description="What starts runs without a caller: a schedule or a webhook.",
    fields=(
        optional(
            "id",
            pattern("^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$", "every_morning"),
            "A name for the trigger: letters, digits, `_`, `.` and `-`.",
        ),
        optional("enabled", {**BOOLEAN, "default": True}, "Whether the trigger is active."),
        optional("schedule", ref("schedule"), "Start on a schedule."),
        optional("webhook", ref("webhook"), "Start when a request arrives."),
        optional(
            "input",
            ref("template"),
            "The input of the run, or the payload of the signal; a webhook's template reads the request.",
        ),
    ),
    exactly_one=(("schedule", "webhook"),),
    hints={"cron": "write `schedule: {cron: …}`", "path": "write `webhook: {path: …}`"},
)

_TEST_SIGNAL = Shape(
    name="test_signal",
    title="Signal of a test",
    description="A signal that arrives during the test.",
    fields=(
        required("name", STRING, "The signal's name."),
        optional("payload", ANYTHING, "What the signal carries."),
        optional(
            "after",
            {"type": ["string", "number"]},
            "When it arrives: after this node or this much time; by itself when the run waits for it.",
        ),
    ),
)

_TEST_ERROR = Shape(
    name="test_error",
    title="Expected error",
    description="The failure the run is expected to end with.",
    fields=(
        optional("code", STRING, "The error's code."),
        optional("message", TEXT, "The error's message."),
    ),
)

_EXPECT = Shape(
    name="expect",
    title="Expectation",
    description="The expected state of the run at its end.",
    fields=(
        optional("status", choice(*RUN_STATUSES), "The run's status."),
        optional("output", ANYTHING, "The run's result."),
        optional("path", STRINGS, "The ids of the nodes in the order they ran."),
        optional("error", ref("test_error"), "The failure."),
        optional("state", OBJECT, "Members that the state must have."),
        optional("continues_with", ANYTHING, "The input of the next run after a continue_as_new."),
    ),
)

_TEST = Shape(
    name="test",
    title="Test",
    description="A case with mocked activities; `penstock workflow simulate --case` runs it.",
    fields=(
        required("name", STRING, "The fact that the test proves."),
        optional("input", ANYTHING, "The run's input."),
        optional(
            "mock",
            OBJECT,
            "Per node or compensate:<node>: output, {error: {code}}, {asks: {question}}, or {sequence: [...]} of them.",
        ),
        optional(
            "model",
            array_of(ANYTHING),
            "For an agent, what its model says turn by turn: a text, {answer}, {tool_calls: [{name, arguments}]}, or "
            "{error: {code}}.",
        ),
        optional(
            "answers",
            OBJECT,
            "Per interrupt or asking activity the answer, or {sequence: [...]} for one per time it is asked.",
        ),
        optional("signals", array_of(ref("test_signal")), "Signals that arrive during the run."),
        optional("time_outs", array_of(STRING), "Nodes that run into their timeout."),
        required("expect", ref("expect"), "What must be true at the end."),
        optional("skip", {**BOOLEAN, "default": False}, "Skip the test."),
    ),
    hints={"mocks": "write `mock`", "output": "write `expect: {output: …}`", "status": "write `expect: {status: …}`"},
)

DOCUMENT = Shape(
    name="document",
    title="Penstock workflow",
    description="A workflow in the native format.",
    fields=(
        required("penstock", {"const": "v1"}, "The format and its version: v1."),
        required(
            "name",
            pattern("^[a-z][a-z0-9_-]{0,63}$", "refund_order"),
            "The workflow's name: lower-case letters, digits, _ and -.",
        ),
        optional("version", {**STRING, "default": "0.0.0", "examples": ["1.4.0"]}, "The version of this definition."),
        optional("title", TEXT, "A title for people."),
        optional("description", TEXT, "What the workflow does; assistants read it to choose the tool."),
        optional("labels", map_of(TEXT), "Words to find the workflow by."),
        optional("metadata", OBJECT, "Data for your own tools; Penstock ignores it."),
        optional("input", ref("json_schema"), "The JSON Schema of the run's input; enforced at the start."),
        optional("output", ref("json_schema"), "The JSON Schema of the run's result; enforced at the end."),
        optional("state", ref("state_schema"), "The JSON Schema of the state, with a reducer per property."),
        optional(
            "secrets",
            array_of(pattern("^[A-Z][A-Z0-9_]*$", "SHOP_API_KEY")),
            "The secrets that activities may refer to as ${secret:NAME}.",
        ),
        optional("timeout", ref("duration"), "The time limit of a whole run."),
        optional("defaults", ref("defaults"), "Defaults for activities."),
        optional("on_error", ref("error_routes"), "What to do when a node fails and has no route of its own."),
        optional("nodes", ref("nodes"), "What the workflow does, in order."),
        optional("agent", ref("agent"), "A model that does the work with tools, instead of nodes."),
        optional("edges", array_of(ref("edge")), "The order of the nodes, if not the listed order."),
        optional("checkpointing", ref("checkpointing"), "When the run's state is stored in full."),
        optional("expose", ref("expose"), "How assistants see the workflow."),
        optional("governance", ref("governance"), "The rules that the gate applies to calls of the workflow."),
        optional("triggers", array_of(ref("trigger")), "What starts runs without a caller."),
        optional("tests", array_of(ref("test")), "Cases with mocked activities."),
        optional("signature", ref("signature"), "A signature of the document."),
    ),
    exactly_one=(("nodes", "agent"),),
    hints={
        "document": "the native format has `name` and `version` at the top",
        "state_schema": "write `state`",
        "input_schema": "write `input`",
        "output_schema": "write `output`",
        "steps": "write `nodes`",
        "on": "write `triggers`",
        "schedule": "write `triggers: [{schedule: …}]`",
        "retry": "write `defaults: {retry: …}`",
    },
)

DOCUMENT_SHAPES = (
    _DEFAULTS,
    *AGENT_SHAPES,
    *EXPOSURE_SHAPES,
    _RATE,
    _GOVERNANCE,
    _SCHEDULE,
    _VERIFY,
    _WEBHOOK,
    _TRIGGER,
    _TEST_SIGNAL,
    _TEST_ERROR,
    _EXPECT,
    _TEST,
)
