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
        required("tool", _NAME, "Its canonical name; with `*` at the end, all that begin like this."),
        optional("approve", {**BOOLEAN, "default": False}, "Ask a person before each call."),
        optional("approvers", ref("approvers"), "Who has to approve each call."),
    ),
    hints={"name": "write `tool`", "confirm": "write `approve`", "allow": "write `tool`"},
)

_LIMITS = Shape(
    name="agent_limits",
    title="Limits of an agent",
    description="When an agent has to stop, counted with everything that its run starts or calls.",
    fields=(
        optional(
            "turns",
            {**COUNT, "maximum": AGENT_TURNS_MAX, "default": AGENT_TURNS_DEFAULT},
            "How often models are asked. Without it, 1,000 with everything below.",
        ),
        optional("tokens", COUNT, "Tokens of all turns together, those that the model reads and those that it writes."),
        optional("cost", {"type": "number", "exclusiveMinimum": 0, "examples": [0.5]}, "US dollars of all turns."),
        optional("time", ref("duration"), "The time from the first turn on, waiting for people included."),
        optional(
            "parallel_tools",
            {**COUNT, "maximum": LLM_TOOL_CALLS_MAX, "default": AGENT_PARALLEL_TOOLS_DEFAULT},
            "Calls of one turn that are made at the same time.",
        ),
    ),
    hints={"max_turns": "write `turns`", "timeout": "write `time`", "max_tokens": "write `tokens`"},
)

_CONVERSATION = Shape(
    name="agent_conversation",
    title="Conversation of an agent",
    description="How much of a long conversation the model reads. The oldest turns are left out first, or summarised.",
    fields=(
        optional(
            "characters",
            {
                **COUNT,
                "minimum": AGENT_CONVERSATION_CHARACTERS_MIN,
                "maximum": AGENT_CONVERSATION_CHARACTERS_MAX,
                "default": AGENT_CONVERSATION_CHARACTERS_DEFAULT,
            },
            "Characters of what was said and of what tools returned; the instructions are not counted.",
        ),
        optional(
            "summarize",
            {**BOOLEAN, "default": False},
            "Have a model summarise what is left out. A summary is paid for, and counts in `limits`.",
        ),
        optional("model", STRING, "The model that summarises; that of the agent if it is left out."),
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
    description="What the agent may remember beyond its run: of its session, of whoever started it, of the tenant.",
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
            "What it is asked, with ${ jq }; values in it are marked as data. Left out: `.input.prompt`, as it is.",
        ),
        optional(
            "tools",
            {**array_of({"anyOf": [_NAME, ref("agent_tool")]}), "maxItems": AGENT_TOOLS_MAX},
            "The capabilities it may call, as far as whoever starts it may: names, patterns, or {tool, approve}.",
        ),
        optional("output_schema", ref("json_schema"), "The JSON Schema of its answer; without one it is a text."),
        optional("limits", ref("agent_limits"), "When it has to stop."),
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
