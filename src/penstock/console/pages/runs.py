"""Runs: the list with its filters, and one run with its questions, nodes and history.

A list has no values in it; a value is cut, and the whole of it is a page of its own. The history is shown in windows.
Every filter, window and record has an address.
"""

from __future__ import annotations

from urllib.parse import urlencode

import msgspec

from penstock.base import limits
from penstock.base.errors import NotFound, PenstockError, Rejected
from penstock.console.forms import Fields
from penstock.console.rendering import cut_value, whole_value
from penstock.console.visits import Page, Redirect, Shown, Text, Visit
from penstock.html_form import UnreadableField, answer_form
from penstock.operations.runs.statuses import RUN_STATUSES

__all__ = ["listing", "record", "run", "value"]

_FILTERS = ("text", "status", "workflow_id", "cursor")
_VALUES = ("input", "output", "state", "error")
_SUMMARY_CHARACTERS = 160
# What a button of the page does, by the name in its form.
_ACTIONS = {
    "cancel": "execution.cancel",
    "pause": "execution.pause",
    "resume": "execution.resume",
    "retry": "execution.retry",
}
_ENDED = ("completed", "failed", "cancelled")


async def listing(visit: Visit) -> Shown:
    """Show runs, newest first. A bare id in the search leads to its run."""
    given = {name: visit.query.text(name) for name in _FILTERS}
    text = given["text"]
    if text.startswith("r_") and " " not in text and not given["cursor"]:
        try:
            found = await visit.call("execution.status", execution_id=text)
        except PenstockError:
            pass  # not a run, or not the visitor's: it is searched like any text
        else:
            return Redirect(f"/console/runs/{found['execution_id']}")
    page = await visit.call(
        "execution.list",
        text=text or None,
        status=[given["status"]] if given["status"] else None,
        workflow_id=given["workflow_id"] or None,
        cursor=given["cursor"] or None,
        limit=limits.CONSOLE_ROWS,
    )
    filters = {name: chosen for name, chosen in given.items() if chosen and name != "cursor"}
    more = urlencode({**filters, "cursor": page["next_cursor"]}) if page["next_cursor"] else None
    return Page(
        "runs.html",
        {
            "section": "runs",
            "runs": page["items"],
            "more": more,
            "filters": given,
            "is_filtered": bool(filters),
            "statuses": RUN_STATUSES,
        },
    )


async def run(visit: Visit) -> Shown:
    """Show a run; take an answer to one of its questions, or do what a button says."""
    execution_id = visit.path["execution_id"]
    if visit.form is None:
        return await _run_page(visit, execution_id)
    if visit.form.text("action") == "answer":
        return await _answer(visit, execution_id, visit.form)
    operation = _ACTIONS.get(visit.form.text("action"))
    if operation is None:
        raise Rejected("ACTION_UNKNOWN", "the page has no such button", "open the page again")
    reason = visit.form.text("reason") or None
    arguments = {"reason": reason} if operation in ("execution.cancel", "execution.pause") else {}
    await visit.call(operation, execution_id=execution_id, **arguments)
    return Redirect(f"/console/runs/{execution_id}")


async def _answer(visit: Visit, execution_id: str, form: Fields) -> Shown:
    shown = await visit.call("execution.status", execution_id=execution_id)
    questions = shown["waiting_for"]["questions"]
    asked = next((item for item in questions if item["interrupt_id"] == form.text("interrupt_id")), None)
    if asked is None:
        return await _run_page(visit, execution_id, notice="This question has been answered already.", status=409)
    fields = answer_form(asked["answer_schema"])
    answer = asked["decline"] if form.text("decline") else fields.answer(form)
    if isinstance(answer, UnreadableField):
        mistakes = {asked["interrupt_id"]: (form, {answer.path: [answer.message]})}
        return await _run_page(visit, execution_id, mistakes=mistakes, status=422)
    try:
        await visit.call(
            "execution.answer", execution_id=execution_id, interrupt_id=asked["interrupt_id"], answer=answer
        )
    except PenstockError as error:
        if error.code not in ("ANSWER_INVALID", "VALUE_NOT_JSON"):
            raise
        mistakes = {asked["interrupt_id"]: (form, {"": [error.message]})}
        return await _run_page(visit, execution_id, mistakes=mistakes, status=422)
    return Redirect(f"/console/runs/{execution_id}")


async def _run_page(
    visit: Visit,
    execution_id: str,
    *,
    notice: str | None = None,
    mistakes: dict[str, tuple[Fields, dict[str, list[str]]]] | None = None,
    status: int = 200,
) -> Page:
    shown = await visit.call("execution.status", execution_id=execution_id)
    after = visit.query.text("after")
    history = await visit.call(
        "execution.history",
        execution_id=execution_id,
        after=int(after) if after.isdecimal() else None,
        limit=limits.CONSOLE_HISTORY_ROWS,
    )
    questions = []
    for asked in shown["waiting_for"]["questions"]:
        given, wrong = (mistakes or {}).get(asked["interrupt_id"], (Fields({}), {}))
        fields = answer_form(asked["answer_schema"]).html(given, wrong)
        general = [message for place, messages in wrong.items() if not place for message in messages]
        questions.append({**asked, "fields": fields, "mistakes": general})
    records = [
        {**item, "summary": msgspec.json.encode(item["payload"]).decode()[:_SUMMARY_CHARACTERS]}
        for item in history["items"]
    ]
    values = [
        {"name": name, "cut": cut_value(shown[name])} for name in _VALUES if shown[name] not in (None, {}, [], "")
    ]
    return Page(
        "run.html",
        {
            "section": "runs",
            "run": shown,
            "questions": questions,
            "values": values,
            "records": records,
            "after": int(after) if after.isdecimal() else 0,
            "more": records[-1]["seq"] if history["next_cursor"] and records else None,
            "ended": shown["status"] in _ENDED,
            "notice": notice,
        },
        status,
    )


async def value(visit: Visit) -> Shown:
    """Show the whole of a value as text."""
    name = visit.path["name"]
    if name not in _VALUES:
        raise NotFound("VALUE_NOT_FOUND", f"a run has no {name[:40]}")
    shown = await visit.call("execution.status", execution_id=visit.path["execution_id"])
    return Text(whole_value(shown[name]))


async def record(visit: Visit) -> Shown:
    """Show the whole of a record as text."""
    seq = visit.path["seq"]
    if not seq.isdecimal() or int(seq) < 1:
        raise NotFound("RECORD_NOT_FOUND", "there is no such record")
    history = await visit.call(
        "execution.history", execution_id=visit.path["execution_id"], after=int(seq) - 1, limit=1
    )
    if not history["items"] or history["items"][0]["seq"] != int(seq):
        raise NotFound("RECORD_NOT_FOUND", f"there is no record {seq[:20]}")
    return Text(whole_value(history["items"][0]))
