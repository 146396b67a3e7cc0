"""What an A2A agent said, as results and texts of ours.

A single data part is the result itself, texts are `{"text": …}`, anything else is `{"parts": […]}`.

Above it: `a2a`. Below it: the messages of the SDK.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from a2a.types.a2a_pb2 import Artifact, Message, Part
from google.protobuf.json_format import MessageToDict

from penstock.base import limits
from penstock.base.json import JsonValue
from penstock.runtime.executors.agents.port import AgentTask
from penstock.runtime.executors.outbound.json_tokens import has_more_tokens

__all__ = ["json_of", "result_of", "text_of"]


def result_of(task: AgentTask, contents: Sequence[Artifact | Message]) -> JsonValue:
    """Return the result of a task."""
    parts = [part for item in contents for part in item.parts]
    kinds = {part.WhichOneof("content") for part in parts}
    if len(parts) == 1 and kinds == {"data"}:
        return _whole_numbers(MessageToDict(parts[0].data))
    if kinds <= {"text"}:
        text = "\n".join(text_of(item.parts, "" if isinstance(item, Artifact) else "\n") for item in contents)
        if task.output_schema is not None and not has_more_tokens(text.encode(), limits.UPSTREAM_ANSWER_TOKENS_MAX):
            # An agent that speaks only text replies with JSON in a text part when it is asked for JSON.
            try:
                value = json.loads(text)
            except (ValueError, RecursionError):
                value = None
            if isinstance(value, dict):
                return value
        return {"text": text}
    return {"parts": [json_of(part) for part in parts]}


def text_of(parts: Any, between: str = "\n") -> str:
    """Return the texts among some parts."""
    # The parts of one artifact are often one text that arrived in pieces.
    return between.join(part.text for part in parts if part.WhichOneof("content") == "text")


def json_of(part: Part) -> JsonValue:
    """Return a part as JSON."""
    return _whole_numbers(MessageToDict(part))


def _whole_numbers(value: JsonValue) -> JsonValue:
    """Turn whole floats back into integers: the SDK's wire format has only floating-point numbers."""
    if isinstance(value, dict):
        return {name: _whole_numbers(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_whole_numbers(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
