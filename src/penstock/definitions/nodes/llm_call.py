"""`llm_call`: asks a language model."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.base.json import JsonObject
from penstock.definitions.model import NodeType
from penstock.definitions.node_parts.activity import activity_builder, activity_jq
from penstock.definitions.node_parts.captions import first_text
from penstock.definitions.node_parts.changes import Comparison
from penstock.definitions.node_parts.kind import (
    Activity,
    Category,
    NodeKind,
    Pace,
    PublishedConfig,
    Reference,
    Resource,
)
from penstock.definitions.shapes.fields import (
    ANYTHING,
    BOOLEAN,
    COUNT,
    OBJECT,
    STRING,
    TEXT,
    Shape,
    optional,
    ref,
    required,
)

__all__ = ["KIND"]

_ACTIVITY = Activity(arguments=("system_prompt", "prompt", "user_prompt", "messages"))


def _references(fields: JsonObject) -> Iterator[Reference]:
    # A provider that the node names has its own models.
    if fields.get("provider") is None:
        yield Reference(resource=Resource.MODEL, name=fields.get("model"), field="model")


KIND = NodeKind(
    type=NodeType.LLM_CALL,
    shape=Shape(
        name="llm_call",
        title="llm_call",
        description="Asks a language model; members not listed here are passed on to it.",
        fields=(
            required("model", STRING, "The model's name."),
            optional("provider", STRING, "Who serves the model; `client` is the MCP client that calls the workflow."),
            optional("system_prompt", TEXT, "Standing instructions; may contain ${ jq }."),
            optional("prompt", TEXT, "The question; may contain ${ jq }."),
            optional("user_prompt", TEXT, "The same as `prompt`."),
            optional("temperature", {"type": "number", "minimum": 0}, "How much the answers vary."),
            optional("max_tokens", COUNT, "The longest answer."),
            optional(
                "tools",
                {"type": ["string", "array"], "items": OBJECT},
                "Tools the model may call: a list of {name, description, input_schema}, or the state's member with it.",
            ),
            optional("conversation", STRING, "The state member with the conversation after the prompt."),
            optional(
                "conversation_characters", COUNT, "How much of the conversation the model reads, the newest part."
            ),
            optional(
                "summary",
                STRING,
                "The state member with a summary, {text, entries}, which replaces that many entries for the model.",
            ),
            optional("summarize", BOOLEAN, "Instead of a turn, summarize the part that no longer fits."),
            optional("stream", BOOLEAN, "Stream the answer even without a reader."),
            optional("answer_schema", ref("json_schema"), "The JSON Schema of the answer that ends the conversation."),
        ),
        accepts_more=True,
        at_least_one=(("prompt", "user_prompt", "conversation"),),
        at_most_one=(("prompt", "user_prompt"),),
    ),
    published=PublishedConfig(
        shape=Shape(
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
        ),
    ),
    other_words=("llm", "prompt", "model", "chat", "completion"),
    gives="what the model answered, fitting `output_schema` if there is one; with `tools`, `conversation` or "
    "`answer_schema` one turn: {text, tool_calls, answer, problem, usage}; with `summarize`, {text, entries, usage}",
    build=activity_builder(_ACTIVITY),
    category=Category.MODEL,
    caption=first_text("model"),
    pace=Pace.WAITS,
    activity=_ACTIVITY,
    jq=activity_jq(_ACTIVITY),
    references=_references,
    comparison=Comparison(aliases={"user_prompt": "prompt"}),
)
