"""Questions of an execution as MCP asks them: forms of simple fields, and the answers that come back.

A form is a flat object of texts, numbers, truth values and choices. A question with any other schema cannot be asked
this way and is answered with a tool instead. Whoever declines answers nothing: the execution goes on waiting.

Above it: `calls`. Below it: nothing but data; nothing here knows the SDK.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.base.json import JsonObject, JsonValue
from penstock.mcp_surface.results import plain_text
from penstock.operations.execution_waits import QuestionView

__all__ = ["Form", "form_of", "input_requests"]

_PRIMITIVES = ("string", "number", "integer", "boolean")
_KEPT = (
    "type",
    "title",
    "description",
    "enum",
    "default",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "format",
    "enumNames",
    "oneOf",
)
_KEPT_OF_LISTS = ("type", "title", "description", "default", "minItems", "maxItems", "items")
_FORMATS = ("email", "uri", "date", "date-time")
# The field of a question whose answer is not an object.
_ONLY = "answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A question as a form; `wrapped` says that the answer is the one field, not the object."""

    interrupt_id: str
    message: str
    schema: JsonObject
    wrapped: bool = False
    key: str = ""
    """What the question is called on the wire: it is never used again for another question of the execution."""

    def answer(self, content: JsonObject) -> JsonValue:
        """The answer that a filled form is."""
        return content.get(_ONLY) if self.wrapped else content


def form_of(question: QuestionView) -> Form | None:
    """The form of a question; None for one that no form can ask."""
    schema: JsonValue = question.answer_schema
    message, key = plain_text(question.prompt), _key(question)
    if schema is None or schema == {} or schema is True:
        schema = {"type": "string"}
    if not isinstance(schema, dict):
        return None
    if schema.get("type") in _PRIMITIVES:
        field = _field(schema)
        flat: JsonObject = {"type": "object", "required": [_ONLY], "properties": {_ONLY: field}}
        made = Form(interrupt_id=question.interrupt_id, key=key, message=message, schema=flat, wrapped=True)
        return made if field is not None else None
    found = _flat(schema)
    return None if found is None else Form(interrupt_id=question.interrupt_id, key=key, message=message, schema=found)


def _key(question: QuestionView) -> str:
    """The name of the node for its first question, and the whole id for every later one."""
    first = question.visit == 1 and question.interrupt_id == f"{question.node_id}:1"
    return question.node_id if first else question.interrupt_id


def input_requests(forms: Iterable[Form]) -> JsonObject:
    """Questions as an answer asks them, by their keys."""
    return {form.key: _request(form) for form in forms}


def _request(form: Form) -> JsonObject:
    asked: JsonObject = {"mode": "form", "message": form.message, "requestedSchema": form.schema}
    return {"method": "elicitation/create", "params": asked}


def _flat(schema: JsonObject) -> JsonObject | None:
    """The schema of a form, if this is one of an object with simple members."""
    properties = schema.get("properties")
    if schema.get("type", "object") != "object" or not isinstance(properties, dict) or not properties:
        return None
    fields: JsonObject = {}
    for name, member in properties.items():
        field = _field(member)
        if field is None:
            return None
        fields[name] = field
    required = schema.get("required")
    names: list[JsonValue] = [name for name in required if name in fields] if isinstance(required, list) else []
    return {"type": "object", "properties": fields, "required": names}


def _field(member: JsonValue) -> JsonObject | None:
    if not isinstance(member, dict) or member.get("writeOnly") is True or member.get("format") == "password":
        return None
    if member.get("type") == "array":
        return _several(member)
    choices = member.get("enum")
    if isinstance(choices, list) and not all(isinstance(choice, str) for choice in choices):
        return None
    kind = member.get("type") or ("string" if isinstance(choices, list) else None)
    if kind not in _PRIMITIVES:
        return None
    if "oneOf" in member and not _are_choices(member["oneOf"]):
        return None
    kept = {name: member[name] for name in _KEPT if name in member}
    if kept.get("format") not in _FORMATS:
        kept.pop("format", None)
    return {**kept, "type": kind}


def _several(member: JsonObject) -> JsonObject | None:
    """A field in which several of some choices can be taken; None for any other list."""
    items = member.get("items")
    if not isinstance(items, dict):
        return None
    choices = items.get("enum")
    plain = isinstance(choices, list) and all(isinstance(choice, str) for choice in choices)
    if not plain and not _are_choices(items.get("anyOf")):
        return None
    return {name: member[name] for name in _KEPT_OF_LISTS if name in member}


def _are_choices(listed: JsonValue) -> bool:
    """Whether these are texts with titles to choose from."""
    return isinstance(listed, list) and all(
        isinstance(item, dict) and isinstance(item.get("const"), str) and item.keys() <= {"const", "title"}
        for item in listed
    )
