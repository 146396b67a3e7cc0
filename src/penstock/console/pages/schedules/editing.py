"""The forms that create, show, change and delete a schedule.

The form shows the next start times before anything is saved. Its input has the form of the workflow. Mistakes are shown
beside their fields, and the input is kept.

Above it: the table of pages. Below it: `workflow_input`, the operations on schedules.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from penstock.base import limits
from penstock.base.errors import NotFound, PenstockError, Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.console.mistakes import told_at
from penstock.console.pages.reading import Part, address, chosen, held, key_names, part
from penstock.console.visits import Page, Redirect, Shown, Visit
from penstock.console.workflow_input import input_form
from penstock.html_form.form import FIELD_PREFIXES, AnswerForm, Given, UnreadableFields

__all__ = ["new", "schedule"]

_OVERLAPS = {
    "skip": "skip this start",
    "queue": "wait until it has ended",
    "allow": "start another run in parallel",
    "cancel_running": "cancel it and start",
}
_MEMBERS = ("cron", "timezone", "overlap", "catch_up", "jitter")
_OWN_MISTAKES = (
    *("INVALID_ARGUMENTS", "SCHEDULE_INVALID", "INPUT_INVALID", "VALUE_NOT_JSON"),
    *("SCHEDULE_EXISTS", "SECRET_INPUT_NOT_KEPT", "SCHEDULES_LIMITED"),
)
_BUTTONS = {
    "save": "schedule.update",
    "preview": "schedule.preview",
    "pause": "schedule.pause",
    "resume": "schedule.resume",
    "run_now": "schedule.run_now",
    "delete": "schedule.delete",
}


class _Sheet(NamedTuple):
    """What the form shows: the schedule if there is one, its workflow's input, and what was written."""

    workflow_id: str
    input_form: AnswerForm | None
    """None if the visitor may not see the workflow, or if it no longer exists. The input then stays unchanged."""
    sent: Given
    schedule: dict[str, Any] | None = None

    def text(self, name: str) -> str:
        """Return what was written into a field."""
        return (self.sent.get(name) or [""])[0].strip()


class _Wrong(NamedTuple):
    """What is wrong: by the fields of the schedule, with what concerns no field; and by the places in its input."""

    own: dict[str, list[str]]
    input: dict[str, list[str]]


async def new(visit: Visit) -> Shown:
    """Choose a workflow; make a schedule that starts it."""
    sent = visit.form if visit.form is not None else visit.query
    workflow_id = sent.text("workflow_id")
    if not workflow_id:
        known = await part(visit, "workflow.list", limit=limits.PAGE_LIMIT_MAX)
        return Page("schedules/choose.html", {"section": "schedules", "workflows": known})
    shown = await visit.call("workflow.get", workflow_id=workflow_id)
    form = input_form(shown["input_schema"])
    if visit.form is None:
        return await _page(visit, _Sheet(workflow_id, form, {}))
    return await _saved(visit, _Sheet(workflow_id, form, sent), "schedule.create")


async def schedule(visit: Visit) -> Shown:
    """Show a schedule; change it, delete it, or do what another button says."""
    schedule_id = visit.path["schedule_id"]
    known = await visit.call("schedule.get", schedule_id=schedule_id)
    form = await _known_form(visit, known["workflow_id"])
    if visit.form is None:
        return await _page(visit, _Sheet(known["workflow_id"], form, _written(known, form), known))
    operation = chosen(visit.form, _BUTTONS) if visit.form.text("action") else "schedule.update"
    if operation in ("schedule.update", "schedule.preview"):
        return await _saved(visit, _Sheet(known["workflow_id"], form, visit.form, known), operation)
    done = await visit.call(operation, schedule_id=schedule_id)
    if operation == "schedule.run_now":
        return Redirect(address("runs", done["execution_id"]))
    return Redirect(address("schedules") if operation == "schedule.delete" else address("schedules", schedule_id))


async def _known_form(visit: Visit, workflow_id: str) -> AnswerForm | None:
    """Return the form of a workflow's input, if the workflow is there and the visitor may see it."""
    try:
        workflow = await part(visit, "workflow.get", workflow_id=workflow_id)
    except NotFound:
        return None
    return None if workflow.value is None else input_form(workflow.value["input_schema"])


def _written(known: dict[str, Any], form: AnswerForm | None) -> Given:
    """Return a schedule as the form data that would make it."""
    members = {name: [known[name] or ""] for name in _MEMBERS}
    filled = form.filled(known["input"]) if form is not None and known["input"] is not None else {}
    return {**filled, **members}


async def _saved(visit: Visit, sheet: _Sheet, operation: str) -> Shown:
    """Save what was written; or show it again, with the times, a changed list, or what is wrong."""
    form = sheet.input_form
    if form is not None and (edited := form.edited(sheet.sent)) is not None:
        return await _page(visit, sheet._replace(sent=edited))
    value = None if form is None else form.answer(sheet.sent)
    if isinstance(value, UnreadableFields):
        return await _page(visit, sheet, _Wrong({}, value.wrong))
    if sheet.text("action") == "preview":
        return await _page(visit, sheet)
    try:
        kept = await visit.call_with(operation, _arguments(sheet, value))
    except PenstockError as error:
        if error.code not in _OWN_MISTAKES:
            raise
        return await _page(visit, sheet, _wrong(sheet, error))
    return held(kept) or Redirect(address("schedules", kept["schedule_id"]))


def _arguments(sheet: _Sheet, value: JsonValue) -> JsonObject:
    """Return the call that saves it. An empty field takes a member away from a schedule that has it."""
    members: JsonObject = {name: sheet.text(name) or None for name in _MEMBERS}
    members |= {"cron": sheet.text("cron"), "timezone": sheet.text("timezone") or "UTC"}
    if sheet.input_form is not None:
        members["input"] = value
    if sheet.schedule is not None:
        return {"schedule_id": sheet.schedule["schedule_id"], **members}
    members |= {"workflow_id": sheet.workflow_id, "schedule_id": sheet.text("schedule_id") or None}
    members["paused"] = bool(sheet.text("paused"))
    return {name: item for name, item in members.items() if item is not None}


def _wrong(sheet: _Sheet, error: PenstockError) -> _Wrong:
    own = told_at(error, (*_MEMBERS, "schedule_id"))
    if sheet.input_form is None or "" not in own:
        return _Wrong(own, {})
    placed = sheet.input_form.placed(error, "/input", sheet.sent)
    return _Wrong({"": placed.pop("")} if "" in placed else {}, placed)


async def _page(visit: Visit, sheet: _Sheet, wrong: _Wrong | None = None) -> Page:
    own, inner = wrong or _Wrong({}, {})
    times = Part()
    if sheet.text("cron"):
        try:
            zone = sheet.text("timezone") or None
            times = await part(visit, "schedule.preview", cron=sheet.text("cron"), timezone=zone)
        except Rejected as error:
            own = {**told_at(error, ("cron", "timezone")), **own}
    given = {
        "section": "schedules",
        "schedule": sheet.schedule,
        "workflow_id": sheet.workflow_id,
        "written": {name: sheet.text(name) for name in (*_MEMBERS, "schedule_id", "paused")},
        "wrong": own,
        "has_mistakes": bool(own or inner),
        "fields": None if sheet.input_form is None else sheet.input_form.html(_of_input(sheet.sent), inner),
        "times": times,
        "overlaps": _OVERLAPS,
        "key_names": await key_names(visit, [sheet.schedule["made_by"]] if sheet.schedule is not None else ()),
    }
    return Page("schedules/schedule.html", given, 422 if own or inner else 200)


def _of_input(sent: Given) -> Given:
    """Return the form data of the input: nothing if the form was not filled in yet, so that it shows its defaults."""
    return {name: texts for name, texts in sent.items() if name.startswith(FIELD_PREFIXES)}
