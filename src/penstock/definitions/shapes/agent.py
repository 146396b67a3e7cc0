"""The `agent` block of a native document as tables. `definitions.agents` says what it stands for."""

from penstock.base.limits import (
    AGENT_CONVERSATION_CHARACTERS_DEFAULT,
    AGENT_CONVERSATION_CHARACTERS_MAX,
    AGENT_CONVERSATION_CHARACTERS_MIN,
    AGENT_PARALLEL_TOOLS_DEFAULT,
    AGENT_TOOLS_MAX,
    AGENT_TURNS_DEFAULT,
    AGENT_TURNS_MAX,
    LLM_TOOL_CALLS_MAX,
)
from penstock.definitions.shapes.fields import (
    BOOLEAN,
    COUNT,
    RETRY_FIELD,
    STRING,
    TEXT,
    Shape,
    array_of,
    optional,
    pattern,
    ref,
    required,
)

__all__ = ["AGENT_SHAPES", "MEMORY_SCOPES"]

MEMORY_SCOPES = ("session", "principal", "tenant")
"""Whose memory an agent may read or write."""

_NAME = pattern(r"^[A-Za-z0-9_][A-Za-z0-9_.:/-]*\*?$", "workflow:refund_order", "query:*")

_TOOL = Shape(
    name="agent_tool",
    title="Tool of an agent",
    description="A capability that the agent may call, and whether a person is asked each time.",
    fields=(
        required("tool", _NAME, "Its canonical name, or a prefix that ends with `*`."),
        optional("approve", {**BOOLEAN, "default": False}, "Ask a person before each call."),
        optional("approvers", ref("approvers"), "Who must approve each call."),
    ),
    hints={"name": "write `tool`", "confirm": "write `approve`", "allow": "write `tool`"},
)

_LIMITS = Shape(
    name="agent_limits",
    title="Limits of an agent",
    description="The limits of an agent, including everything that its run starts or calls.",
    fields=(
        optional(
            "turns",
            {**COUNT, "maximum": AGENT_TURNS_MAX, "default": AGENT_TURNS_DEFAULT},
            "The number of requests to models; by default, 1,000 with everything below.",
        ),
        optional("tokens", COUNT, "Tokens of all turns, input and output together."),
        optional(
            "cost", {"type": "number", "exclusiveMinimum": 0, "examples": [0.5]}, "The cost of all turns in US dollars."
        ),
        optional("time", ref("duration"), "The time since the first turn, including waits for people."),
        optional(
            "parallel_tools",
            {**COUNT, "maximum": LLM_TOOL_CALLS_MAX, "default": AGENT_PARALLEL_TOOLS_DEFAULT},
            "Concurrent calls of one turn.",
        ),
    ),
    hints={"max_turns": "write `turns`", "timeout": "write `time`", "max_tokens": "write `tokens`"},
)

_CONVERSATION = Shape(
    name="agent_conversation",
    title="Conversation of an agent",
    description="How much of a long conversation the model reads. The oldest turns are omitted first, or summarized.",
    fields=(
        optional(
            "characters",
            {
                **COUNT,
                "minimum": AGENT_CONVERSATION_CHARACTERS_MIN,
                "maximum": AGENT_CONVERSATION_CHARACTERS_MAX,
                "default": AGENT_CONVERSATION_CHARACTERS_DEFAULT,
            },
            "Characters of messages and tool results, without the instructions.",
        ),
        optional(
            "summarize",
            {**BOOLEAN, "default": False},
            "Have a model summarize the omitted part. Summaries cost money and count in `limits`.",
        ),
        optional("model", STRING, "The model that summarizes; by default, the model of the agent."),
    ),
    hints={
        "summary": "write `summarize: true`",
        "summarise": "write `summarize`",
        "max_characters": "write `characters`",
    },
)

_SCOPES = {**array_of({"enum": list(MEMORY_SCOPES)}), "minItems": 1, "uniqueItems": True}
_MEMORY = Shape(
    name="agent_memory",
    title="Memory of an agent",
    description="What the agent may remember beyond its run: for its session, for the principal that started it, for "
    "the tenant.",
    fields=(
        optional("read", _SCOPES, "Offers `memory.get` and `memory.search`, for these scopes."),
        optional("write", _SCOPES, "Offers `memory.put`, for these scopes."),
    ),
    at_least_one=(("read", "write"),),
    hints={"scopes": "write `read` and `write`", "session": "write `read: [session]`"},
)

_AGENT = Shape(
    name="agent",
    title="Agent",
    description="A model that works in turns and calls tools, instead of `nodes`.",
    fields=(
        required("model", STRING, "The model's name."),
        optional("provider", STRING, "Who serves the model."),
        required("instructions", TEXT, "What the agent is for, and how it works; may contain ${ jq }."),
        optional(
            "prompt",
            TEXT,
            "The task, with ${ jq }; values in it are marked as data. By default, `.input.prompt`, unchanged.",
        ),
        optional(
            "tools",
            {**array_of({"anyOf": [_NAME, ref("agent_tool")]}), "maxItems": AGENT_TOOLS_MAX},
            "The capabilities it may call, if the principal that starts it may: names, patterns, or {tool, approve}.",
        ),
        optional("output_schema", ref("json_schema"), "The JSON Schema of its answer; without one it is a text."),
        optional("limits", ref("agent_limits"), "Its limits."),
        optional("conversation", ref("agent_conversation"), "How much of a long conversation it reads."),
        optional("memory", ref("agent_memory"), "What it may remember beyond its run; without it, nothing."),
        optional("ask_user", {**BOOLEAN, "default": False}, "Whether it may ask a person."),
        optional("temperature", {"type": "number", "minimum": 0}, "How much the answers vary."),
        optional("max_tokens", COUNT, "The longest turn."),
        RETRY_FIELD,
    ),
    hints={
        "system_prompt": "write `instructions`",
        "max_turns": "write `limits: {turns: …}`",
        "output": "write `output_schema`",
        "budget": "write `limits`",
    },
)

AGENT_SHAPES = (_TOOL, _LIMITS, _CONVERSATION, _MEMORY, _AGENT)
