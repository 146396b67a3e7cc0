"""Starting a workflow with a form that is made from the schema of its input, or running it dry.

What was written is kept when something is wrong with it, and the error stands beside its field. Secrets are typed into
password fields and never shown back; a dry run gets stars in their place. A form has an id for the run that it starts,
so that sending it twice starts one run.

Above it: the table of pages. Below it: `html_form`, the gate.
"""

from __future__ import annotations

import re
import secrets
from typing import Any, NamedTuple

from penstock.base.errors import Denied, PenstockError, Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.console.forms import Fields
from penstock.console.pages.reading import address
from penstock.console.rendering import cut_value
from penstock.console.visits import Page, Redirect, Shown, Visit
from penstock.html_form import AnswerForm, UnreadableField, answer_form
from penstock.operations.executions.answers import is_secret

__all__ = ["masked", "start"]

_ID_BYTES = 8
_WRONG_INPUT = ("INPUT_INVALID", "INVALID_ARGUMENTS", "VALUE_NOT_JSON")
_MISSING = re.compile(r"required property '([^']{1,200})'")
_STARS = "********"


async def start(visit: Visit) -> Shown:
    """Show the form; run the workflow dry, or start it."""
    workflow_id = visit.path["workflow_id"]
    shown = await visit.call("workflow.get", workflow_id=workflow_id)
    schema = shown["input_schema"]
    # Without members there is nothing to make fields of: the input is written as JSON.
    form = answer_form(
        schema if isinstance(schema, dict) and schema.get("properties") else {"title": "Input", "default": {}}
    )
    if visit.form is None:
        return _page(_Sheet(shown, form, Fields({}), f"c-{secrets.token_hex(_ID_BYTES)}"))
    sent = visit.form
    sheet = _Sheet(shown, form, sent, sent.text("execution_id"))
    value = form.answer(sent)
    if isinstance(value, UnreadableField):
        return _page(sheet, {value.path: [value.message]})
    if sent.text("action") == "simulate":
        return await _simulated(visit, sheet, value)
    if sent.text("action") != "start":
        raise Rejected("ACTION_UNKNOWN", "the page has no such button", "open the page again")
    try:
        started = await visit.call(
            "workflow.execute", workflow_id=workflow_id, input=value, execution_id=sheet.run_id or None
        )
    except PenstockError as error:
        if error.code not in _WRONG_INPUT:
            raise
        return _page(sheet, _placed(form, error))
    held = started.get("held")
    return Redirect(address("approvals", held["draft_id"]) if held else address("runs", started["execution_id"]))


class _Sheet(NamedTuple):
    """A form for a workflow, and what was written into it."""

    workflow: dict[str, Any]
    form: AnswerForm
    sent: Fields
    run_id: str


async def _simulated(visit: Visit, sheet: _Sheet, value: JsonValue) -> Page:
    """Show what a run would do, and whether its start would wait for somebody."""
    workflow_id, without = sheet.workflow["id"], masked(sheet.workflow["input_schema"], value)
    found = await visit.call("workflow.simulate", workflow_id=workflow_id, input=without)
    wrong: dict[str, list[str]] = {}
    gate: dict[str, Any] = {"would": None, "refused": None}
    try:
        looked = await visit.call(
            "preflight.run", operation="workflow.execute", arguments={"workflow_id": workflow_id, "input": without}
        )
        gate |= {"would": looked["would"], "reason": looked["reason"]}
    except Denied as error:
        gate["refused"] = error.message
    except PenstockError as error:
        wrong = _placed(sheet.form, error)
    return _page(sheet, wrong, {**found, "result": cut_value(found["result"]), "gate": gate})


def _page(sheet: _Sheet, wrong: dict[str, list[str]] | None = None, simulated: dict[str, Any] | None = None) -> Page:
    given = {
        "section": "workflows",
        "workflow": sheet.workflow,
        "tab": "start",
        "fields": sheet.form.html(sheet.sent, wrong or {}),
        "mistakes": (wrong or {}).get("", []),
        "has_mistakes": bool(wrong),
        "run_id": sheet.run_id,
        "simulated": simulated,
    }
    return Page("workflows/start.html", given, 422 if wrong else 200)


def _placed(form: AnswerForm, error: PenstockError) -> dict[str, list[str]]:
    """Return the messages of a refusal by the fields that they are about; those about no field are general."""
    found: dict[str, list[str]] = {}
    listed = error.details.get("errors")
    for item in listed if isinstance(listed, list) else []:
        if not isinstance(item, dict):
            continue
        message = str(item.get("message"))
        place = str(item.get("pointer", "")).removeprefix("/input").removeprefix("/")
        missing = _MISSING.search(message) if item.get("keyword") == "required" else None
        if missing is not None:
            name = missing.group(1).replace("~", "~0").replace("/", "~1")
            place = f"{place}/{name}" if place else name
            message = "this is needed"
        while place and not form.has(place):
            place = place.rpartition("/")[0]  # what is inside of a field with JSON is told at the field
        found.setdefault(place, []).append(message)
    return found or {"": [error.message]}


def masked(schema: JsonValue, value: JsonValue) -> JsonValue:
    """Return a value with stars where its schema has secrets."""
    if not isinstance(schema, dict):
        return value
    if is_secret(schema):
        return _STARS if isinstance(value, str) else None
    members, items = schema.get("properties"), schema.get("items")
    if isinstance(value, dict) and isinstance(members, dict):
        found: JsonObject = {name: masked(members.get(name), item) for name, item in value.items()}
        return found
    if isinstance(value, list) and isinstance(items, dict):
        return [masked(items, item) for item in value]
    return value
