"""The workflow that answers one message of a session: that of the agent, which begins with what was said before.

It differs from the agent's own workflow in its input, which has the conversation so far, and in its turns: these are
asked for piece by piece, and read a bounded part of the conversation. It is a document without an `agent` block, so
that a run in progress stores its nodes and never depends on a later release.

Above it: the operations on sessions. Below it: `expansion`, `conversations`, `schemas`.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue, object_or_empty
from penstock.definitions.agents.conversations import (
    bounded_conversation,
    finished_part,
    summarized_conversation,
    without_thoughts,
)
from penstock.definitions.agents.expansion import expanded
from penstock.definitions.agents.schemas import DEFAULT_INPUT
from penstock.definitions.agents.summaries import conversation_characters, summarizes

__all__ = ["characters_of_conversation", "conversation_of", "session_document", "takes_messages"]

_PROMPT = '[{role: "user", text: .input.prompt, message: true}]'
_CONTEXT = '(if .input.context == null then [] else [{role: "user", data: .input.context, source: "context"}] end)'
# What belongs to the agent and not to the workflow of a message.
_LEFT_OUT = ("tests", "expose", "signature")


def takes_messages(document: JsonObject) -> bool:
    """Whether an agent can be talked to: it takes a prompt, and asks its model just that."""
    return "input" not in document and "prompt" not in object_or_empty(document.get("agent"))


def characters_of_conversation(document: JsonObject) -> int:
    """Return how much of a conversation an agent reads."""
    return conversation_characters(object_or_empty(document.get("agent")))


def conversation_of(document: JsonObject, values: JsonObject) -> list[JsonObject]:
    """Return what the next message to an agent begins with, by the state of the run before it.

    If it is summarised, more is taken over than the model reads: the run summarises it before its first turn.
    """
    said = without_thoughts(finished_part(values.get("conversation")))
    most = characters_of_conversation(document)
    if summarizes(object_or_empty(document.get("agent"))):
        said = summarized_conversation(said, values.get("summary"))
        most = limits.AGENT_CONVERSATION_CHARACTERS_MAX
    return bounded_conversation(said, most)


def session_document(document: JsonObject) -> JsonObject:
    """Return the workflow of a message to an agent."""
    whole = {name: value for name, value in expanded(document).items() if name not in _LEFT_OUT}
    said: JsonObject = {
        "type": "array",
        "items": {"type": "object"},
        "description": "What was said before, as far as the model reads it.",
    }
    properties = object_or_empty(DEFAULT_INPUT["properties"])
    whole["input"] = {**DEFAULT_INPUT, "properties": {**properties, "conversation": said}}
    characters = characters_of_conversation(document)
    whole["nodes"] = [_node(node, characters) for node in _listed(whole["nodes"])]
    return whole


def _node(node: JsonObject, characters: int) -> JsonObject:
    if node.get("id") == "begin":
        conversation: JsonObject = {"jq": f"(.input.conversation // []) + {_PROMPT} + {_CONTEXT}"}
        return {**node, "set": {**object_or_empty(node.get("set")), "conversation": conversation}}
    if node.get("id") == "turns":
        inner: list[JsonValue] = [
            {**item, "conversation_characters": characters, "stream": True} if item.get("id") == "turn" else item
            for item in _listed(node.get("nodes"))
        ]
        return {**node, "nodes": inner}
    return node


def _listed(nodes: JsonValue) -> Iterator[JsonObject]:
    yield from (node for node in (nodes if isinstance(nodes, list) else []) if isinstance(node, dict))
