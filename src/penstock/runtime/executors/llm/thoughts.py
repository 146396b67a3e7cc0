"""Thoughts of models: what a provider wants back, word for word, in the later turns of a conversation with tools.

    {provider: own, model: large, system: anthropic, parts: [{kind: thinking, content, signature}, {kind: tool_call}]}

Anthropic signs them and refuses a call of a tool whose thoughts are missing; OpenAI's Responses name or encrypt them.
Google signs the parts that follow them, and refuses a call without its signature: on its own wire (`thought_signature`)
and on that of chat completions (`extra_content`).
They are kept as they came, in the order of the parts of the answer, with the ids of those. Thoughts that are plain text
are not kept: no provider checks them, and a model does without. Nor are those of a turn that calls nothing: it ends.

They go back only to the provider and the model that they came from, and never become part of a text. A turn with more
of them than `LLM_THOUGHTS_CHARACTERS_MAX` keeps none: half of them would be refused.

Above it: `pydantic_ai`. Below it: the messages of the library.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

from pydantic_ai.messages import ModelResponse, ModelResponsePart, TextPart, ThinkingPart, ToolCallPart

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue, list_or_empty
from penstock.runtime.executors.llm.port import LlmMessage
from penstock.runtime.executors.llm.tool_names import ANSWER_TOOL

__all__ = ["said_before", "thoughts_of"]

# The library's names for where a chat completion had plain thoughts.
_PLAIN = ("content", "reasoning", "reasoning_content")
# Its names for the signatures of texts and calls.
_SIGNED = ("thought_signature", "extra_content")
_THINKING, _TEXT, _CALL = "thinking", "text", "tool_call"


def thoughts_of(response: ModelResponse, provider: str, model: str) -> JsonObject | None:
    """Return what has to go back with an answer; None if nothing has to."""
    kept = [part for part in response.parts if _is_wanted_back(part) or _signature_of(part) is not None]
    # An answer by a tool ends the conversation. If it has to be repaired, it is sent back as the text that it was.
    if not kept or any(isinstance(part, ToolCallPart) and part.tool_name == ANSWER_TOOL for part in response.parts):
        return None
    try:
        parts: list[JsonValue] = [json.loads(json.dumps(found)) for found in _described(response.parts)]
    except (TypeError, ValueError):
        return None
    system = kept[0].provider_name or response.provider_name
    thoughts: JsonObject = {"provider": provider, "model": model, "system": system, "parts": parts}
    return thoughts if len(json.dumps(thoughts)) <= limits.LLM_THOUGHTS_CHARACTERS_MAX else None


def _signature_of(part: Any) -> dict[str, Any] | None:
    """Return how a provider signed a text or a call; None if it did not."""
    if not isinstance(part, TextPart | ToolCallPart):
        return None
    return {name: value for name, value in (part.provider_details or {}).items() if name in _SIGNED and value} or None


def _is_wanted_back(part: Any) -> bool:
    if not isinstance(part, ThinkingPart):
        return False
    return part.provider_name is not None and (bool(part.signature) or (part.id is not None and part.id not in _PLAIN))


def _described(parts: Any) -> Iterator[dict[str, Any]]:
    for part in parts:
        found: dict[str, Any]
        if isinstance(part, ThinkingPart) and _is_wanted_back(part):
            found = {"kind": _THINKING, "content": part.content, "id": part.id, "signature": part.signature}
            found["details"] = part.provider_details
        elif isinstance(part, TextPart):
            found = {"kind": _TEXT, "id": part.id, "details": _signature_of(part)}
        elif isinstance(part, ToolCallPart):
            found = {"kind": _CALL, "id": part.id, "details": _signature_of(part)}
        else:
            continue
        yield {name: value for name, value in found.items() if value is not None}


def said_before(message: LlmMessage, provider: str, model: str) -> ModelResponse:
    """Return what a model said, for the library; with its thoughts, if this is the model that had them."""
    thoughts = message.thoughts
    if thoughts is None or (thoughts.get("provider"), thoughts.get("model")) != (provider, model):
        return ModelResponse(parts=_said(message))
    system = thoughts.get("system")
    named = system if isinstance(system, str) else None
    left = _said(message)
    parts: list[ModelResponsePart] = []
    for found in list_or_empty(thoughts.get("parts")):
        entry: Any = found if isinstance(found, dict) else {}
        if entry.get("kind") == _THINKING:
            parts.append(
                ThinkingPart(
                    content=entry.get("content", ""),
                    id=entry.get("id"),
                    signature=entry.get("signature"),
                    provider_name=named,
                    provider_details=entry.get("details"),
                )
            )
            continue
        kind = TextPart if entry.get("kind") == _TEXT else ToolCallPart
        own = next((part for part in left if isinstance(part, kind)), None)
        if own is not None:
            left.remove(own)
            own.id = entry.get("id")
            if entry.get("details") is not None:
                own.provider_name, own.provider_details = named, entry["details"]
            parts.append(own)
    return ModelResponse(parts=[*parts, *left], provider_name=named)


def _said(message: LlmMessage) -> list[ModelResponsePart]:
    parts: list[ModelResponsePart] = [TextPart(message.text)] if message.text or not message.tool_calls else []
    for call in message.tool_calls:
        arguments = call.arguments if isinstance(call.arguments, dict) else {}
        parts.append(ToolCallPart(call.name, cast("dict[str, Any]", arguments), call.id))
    return parts
