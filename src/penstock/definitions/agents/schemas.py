"""The schemas of a document's input and result, also if it is an agent that does not write them down.

Above it: everything that reads `input` and `output` of a document. Below it: nothing.
"""

from __future__ import annotations

from penstock.base.json import JsonObject, JsonValue, object_or_empty

__all__ = ["DEFAULT_INPUT", "answer_schema_of", "input_schema_of", "is_agent", "output_schema_of"]

DEFAULT_INPUT: JsonObject = {
    "type": "object",
    "required": ["prompt"],
    "properties": {
        "prompt": {"type": "string", "minLength": 1, "description": "What to do."},
        "context": {"type": "object", "description": "Facts that it needs."},
    },
    "additionalProperties": False,
}
"""What an agent takes unless its document says otherwise."""
_TEXT: JsonObject = {
    "type": "object",
    "required": ["text"],
    "properties": {"text": {"type": "string", "description": "The answer."}},
}


def is_agent(document: JsonObject) -> bool:
    """Whether a document is an agent: it has an `agent` block and no nodes of its own."""
    return isinstance(document.get("agent"), dict) and "nodes" not in document


def input_schema_of(document: JsonObject) -> JsonObject:
    """Return the schema of the input; an empty one if the document has none."""
    if is_agent(document) and "input" not in document:
        return DEFAULT_INPUT
    return object_or_empty(document.get("input"))


def answer_schema_of(document: JsonObject) -> JsonValue:
    """Return the schema that the answer of an agent has to fit; None if it answers with a text."""
    own = object_or_empty(document.get("agent")).get("output_schema")
    return own if own is not None else document.get("output")


def output_schema_of(document: JsonObject) -> JsonObject:
    """Return the schema of the result; an empty one if the document has none."""
    if is_agent(document) and "output" not in document:
        return object_or_empty(answer_schema_of(document)) or _TEXT
    return object_or_empty(document.get("output"))
