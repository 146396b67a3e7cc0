"""Starting a workflow with a form that is made from the schema of its input, or running it dry.

What was written is kept when something is wrong with it, and the error stands beside its field. Secrets are typed into
password fields and never shown back; a dry run gets stars in their place. A form has an id for the run that it starts,
so that sending it twice starts one run.

Above it: the table of pages. Below it: `workflow_input`, the gate.
"""

from __future__ import annotations

import secrets
from typing import Any, NamedTuple

from penstock.base.errors import Denied, PenstockError
from penstock.console.pages.reading import address, held, no_such_button
from penstock.console.rendering import cut_value
from penstock.console.visits import Page, Redirect, Shown, Visit
from penstock.console.workflow_input import input_form, masked
from penstock.html_form.form import AnswerForm, Given, UnreadableFields

__all__ = ["start"]

_ID_BYTES = 8
_WRONG_INPUT = ("INPUT_INVALID", "INVALID_ARGUMENTS", "VALUE_NOT_JSON")


async def start(visit: Visit) -> Shown:
    """Show the form; run the workflow dry, or start it."""
    workflow_id = visit.path["workflow_id"]
    shown = await visit.call("workflow.get", workflow_id=workflow_id)
    form = input_form(shown["input_schema"])
    if visit.form is None:
        return _page(_Sheet(shown, form, {}, f"c-{secrets.token_hex(_ID_BYTES)}"))
    sent = visit.form
    sheet = _Sheet(shown, form, sent, sent.text("execution_id"))
    if (edited := form.edited(sent)) is not None:
        return _page(sheet._replace(sent=edited))
    value = form.answer(sent)
    if isinstance(value, UnreadableFields):
        return _page(sheet, value.wrong)
    if sent.text("action") == "simulate":
        return await _simulated(visit, sheet)
    if sent.text("action") != "start":
        raise no_such_button()
    try:
        started = await visit.call(
            "workflow.execute", workflow_id=workflow_id, input=value, execution_id=sheet.run_id or None
        )
    except PenstockError as error:
        if error.code not in _WRONG_INPUT:
            raise
        return _page(sheet, form.placed(error, "/input", sent))
    return held(started) or Redirect(address("runs", started["execution_id"]))


class _Sheet(NamedTuple):
    """A form for a workflow, and what was written into it."""

    workflow: dict[str, Any]
    form: AnswerForm
    sent: Given
    run_id: str


async def _simulated(visit: Visit, sheet: _Sheet) -> Page:
    """Show what a run would do, and whether its start would wait for somebody."""
    workflow_id = sheet.workflow["id"]
    without = masked(sheet.form, sheet.workflow["input_schema"], sheet.sent)
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
        wrong = sheet.form.placed(error, "/input", sheet.sent)
    return _page(sheet, wrong, {**found, "result": cut_value(found["result"]), "gate": gate})


def _page(sheet: _Sheet, wrong: dict[str, list[str]] | None = None, simulated: dict[str, Any] | None = None) -> Page:
    given = {
        "section": "workflows",
        "workflow": sheet.workflow,
        "tab": "start",
        "fields": sheet.form.html(sheet.sent, wrong or {}),
        "wrong": wrong or {},
        "has_mistakes": bool(wrong),
        "run_id": sheet.run_id,
        "simulated": simulated,
    }
    return Page("workflows/start.html", given, 422 if wrong else 200)
