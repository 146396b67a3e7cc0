"""The input of a workflow as a form: to start it now, or by a schedule.

Above it: the pages of workflows and schedules. Below it: `html_form`.
"""

from __future__ import annotations

from penstock.base.json import JsonObject, JsonValue
from penstock.html_form.form import AnswerForm, Given, UnreadableFields, answer_form
from penstock.operations.executions.answers import is_secret

__all__ = ["input_form", "masked"]

_STARS = "********"


def input_form(schema: JsonValue) -> AnswerForm:
    """Return the form of a workflow's input. Without members there is nothing to make fields of: it is JSON then."""
    has_members = isinstance(schema, dict) and bool(schema.get("properties") or schema.get("$ref"))
    return answer_form(schema if has_members else {"title": "Input", "default": {}})


def masked(form: AnswerForm, schema: JsonValue, sent: Given) -> JsonValue:
    """Return the input that was sent with stars where it has secrets, in fields and in what was written as JSON."""
    value = form.answer(form.without_secrets(sent))
    return None if isinstance(value, UnreadableFields) else _masked(schema, value)


def _masked(schema: JsonValue, value: JsonValue) -> JsonValue:
    if not isinstance(schema, dict):
        return value
    if is_secret(schema):
        return _STARS if isinstance(value, str) else None
    members, items = schema.get("properties"), schema.get("items")
    if isinstance(value, dict) and isinstance(members, dict):
        found: JsonObject = {name: _masked(members.get(name), item) for name, item in value.items()}
        return found
    if isinstance(value, list) and isinstance(items, dict):
        return [_masked(items, item) for item in value]
    return value
