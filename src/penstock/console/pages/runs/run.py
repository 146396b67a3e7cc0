"""One run: what it waits for, its drawing and timeline, its values and a window of its history; and its buttons.

Everything that moves is in parts of the page that are read again when the run does. A part that the visitor may not
read says so.

Above it: `pages`. Below it: `timeline`, `visits`.
"""

from __future__ import annotations

from typing import Any, TypeAlias
from urllib.parse import quote

import msgspec
from markupsafe import Markup

from penstock.asgi.forms import Fields
from penstock.base import limits
from penstock.base.encoding import encode_bytes
from penstock.base.errors import PenstockError
from penstock.base.json import JsonValue
from penstock.base.traces import TRACE_LABEL, trace_id_of
from penstock.console.pages.deciding import WHY_NOT, members_of, run_headline, told_decisions
from penstock.console.pages.reading import Part, address, chosen, node_window, nodes_from, part
from penstock.console.pages.runs.timeline import drawn_timeline
from penstock.console.rendering import cut_value
from penstock.console.visits import Page, Redirect, Shown, Visit
from penstock.html_form.decisions import DECISION, DecisionForm
from penstock.html_form.form import Given, UnreadableFields
from penstock.operations.runs.waits import HELD_PREFIX

__all__ = ["VALUES", "progress", "run"]

VALUES = ("input", "output", "state", "error")
_CHILDREN = 10
_SUMMARY_CHARACTERS = 160
_DIGITS_MAX = 16
_BEFORE_RECORD = 20  # a record that somebody jumps to is shown with what led to it
# What a button of the page does, by the name in its form.
_ACTIONS = {
    "cancel": "execution.cancel",
    "pause": "execution.pause",
    "resume": "execution.resume",
    "retry": "execution.retry",
}
_ENDED = ("completed", "failed", "cancelled")
Mistakes: TypeAlias = dict[str, tuple[Given, dict[str, list[str]]]]
"""What was written in answer to questions, with what is wrong with it, by their ids."""


async def run(visit: Visit) -> Shown:
    """Show a run; take an answer to one of its questions, or do what a button says."""
    execution_id = visit.path["execution_id"]
    if visit.form is None:
        return await _run_page(visit, execution_id)
    if visit.form.text("action") == "answer":
        return await _answer(visit, execution_id, visit.form)
    if visit.form.text("action") == "signal":
        await visit.call("execution.signal", execution_id=execution_id, **_signal(visit.form))
        return Redirect(address("runs", execution_id))
    if visit.form.text("action") == "fork":
        at = visit.form.text("at_sequence")
        made = await visit.call(
            "execution.fork", execution_id=execution_id, at_sequence=int(at) if at.isdecimal() else 0
        )
        return Redirect(address("runs", made["execution_id"]))
    operation = chosen(visit.form, _ACTIONS)
    reason = visit.form.text("reason") or None
    arguments = {"reason": reason} if operation in ("execution.cancel", "execution.pause") else {}
    went_on = await visit.call(operation, execution_id=execution_id, **arguments)
    return Redirect(address("runs", went_on["execution_id"]))  # a retry is a run of its own


def _signal(form: Fields) -> dict[str, Any]:
    """What a signal brings: JSON if it is some, else the text itself."""
    text = form.text("payload")
    payload: JsonValue = None
    if text:
        try:
            payload = msgspec.json.decode(text)
        except msgspec.DecodeError:
            payload = text
    return {"name": form.text("name"), "payload": payload}


async def _answer(visit: Visit, execution_id: str, form: Fields) -> Shown:
    shown = await visit.call("execution.status", execution_id=execution_id)
    questions = shown["waiting_for"]["questions"]
    asked = next((item for item in questions if item["interrupt_id"] == form.text("interrupt_id")), None)
    if asked is None:
        return await _run_page(visit, execution_id, notice="This question has been answered already.", status=409)
    decision = _decision_form(asked)
    fields = decision.form
    if (edited := fields.edited(form)) is not None:
        return await _run_page(visit, execution_id, mistakes={asked["interrupt_id"]: (edited, {})})
    answer = decision.answer(form, form.text(DECISION), declines=bool(form.text("decline")))
    if isinstance(answer, UnreadableFields):
        mistakes: Mistakes = {asked["interrupt_id"]: (form, answer.wrong)}
        return await _run_page(visit, execution_id, mistakes=mistakes, status=422)
    try:
        await visit.call(
            "execution.answer", execution_id=execution_id, interrupt_id=asked["interrupt_id"], answer=answer
        )
    except PenstockError as error:
        if error.code not in ("ANSWER_INVALID", "VALUE_NOT_JSON"):
            raise
        mistakes = {asked["interrupt_id"]: (form, fields.placed(error, "/answer", form))}
        return await _run_page(visit, execution_id, mistakes=mistakes, status=422)
    return Redirect(address("runs", execution_id))


def _decision_form(asked: dict[str, Any]) -> DecisionForm:
    return DecisionForm(asked["answer_schema"], asked["decides"], asked["decline"])


async def _run_page(
    visit: Visit,
    execution_id: str,
    *,
    notice: str | None = None,
    mistakes: Mistakes | None = None,
    status: int = 200,
) -> Page:
    at = visit.query.text("at") or None
    # The timeline first: what is read and folded for it serves the rest.
    timeline = await visit.call("execution.timeline", execution_id=execution_id, at=at)
    shown = await visit.call("execution.status", execution_id=execution_id)
    after = _window(visit, timeline)
    history = await visit.call(
        "execution.history", execution_id=execution_id, after=after, limit=limits.CONSOLE_HISTORY_ROWS
    )
    records = [
        {**item, "summary": encode_bytes(item["payload"]).decode()[:_SUMMARY_CHARACTERS]} for item in history["items"]
    ]
    children = await visit.call("execution.list", parent_id=execution_id, limit=_CHILDREN)
    return Page(
        "runs/run.html",
        {
            "section": "runs",
            "run": shown,
            "nodes": _nodes(visit, shown["nodes"]),
            "execution_id": shown["execution_id"],
            "labels": {name: text for name, text in shown["labels"].items() if name != TRACE_LABEL},
            "trace": _trace(visit, shown),
            **await _reports(visit, execution_id),
            "questions": _questions(shown, mistakes or {}, timeline["undecided"]),
            "drawing": await _drawing(visit, execution_id),
            "timeline": drawn_timeline(timeline, visit.gate.services.clock.now_ms()),
            "marks": timeline,
            "values": [
                {"name": name, "cut": cut_value(shown[name])}
                for name in VALUES
                if shown[name] not in (None, {}, [], "")
            ],
            "children": children,
            "records": records,
            "after": after,
            "more": records[-1]["seq"] if history["next_cursor"] and records else None,
            "window": limits.CONSOLE_HISTORY_ROWS,
            "ended": shown["status"] in _ENDED,
            "notice": notice,
            "headline": run_headline(
                timeline["decisions"], shown["status"], held=shown["workflow_id"].startswith(HELD_PREFIX)
            ),
            "decisions": told_decisions(visit, timeline["decisions"]),
            "led_to": members_of(shown["output"]) if shown["status"] in _ENDED else None,
            "starter": timeline["starter_name"],
        },
        status,
    )


def _window(visit: Visit, timeline: dict[str, Any]) -> int:
    """Where the window of the history begins: after a record, around a record, or at a time."""
    after, around = visit.query.text("after"), visit.query.text("record")
    if timeline["at_sequence"] is not None:
        return max(int(timeline["at_sequence"]) - 1, 0)
    if around.isdecimal() and len(around) < _DIGITS_MAX:
        return max(int(around) - _BEFORE_RECORD, 0)
    return int(after) if after.isdecimal() and len(after) < _DIGITS_MAX else 0


def _nodes(visit: Visit, nodes: list[dict[str, Any]]) -> dict[str, Any]:
    """A window of the nodes: workflows may have thousands, and those that a run never visited are many."""
    window = node_window(nodes_from(visit), len(nodes))
    return {"shown": nodes[window.first : window.first + limits.CONSOLE_NODE_ROWS], **window._asdict()}


def _trace(visit: Visit, shown: dict[str, Any]) -> dict[str, str | None] | None:
    """The trace that the run belongs to, and its page in the operator's tracing system."""
    trace_id = trace_id_of(shown["labels"].get(TRACE_LABEL))
    if trace_id is None:
        return None
    template = visit.trace_url
    return {"id": trace_id, "url": template and template.replace("{trace_id}", quote(trace_id, safe=""))}


async def progress(visit: Visit) -> Shown:
    """Show what the activities of a run report: a part of its page that is read again while one is at work."""
    execution_id = visit.path["execution_id"]
    shown = await _reports(visit, execution_id)
    return Page("runs/progress.html", {"section": "runs", "execution_id": execution_id, **shown})


async def _reports(visit: Visit, execution_id: str) -> dict[str, Any]:
    reports = await part(visit, "execution.progress", execution_id=execution_id)
    return {"reports": reports, "lines_max": limits.REPORT_LINES_KEPT_PER_RUN}


async def _drawing(visit: Visit, execution_id: str) -> Part:
    """The drawing, if there is one. Its markup is made by us, with every text of the document escaped."""
    drawing = await part(visit, "execution.drawing", execution_id=execution_id)
    if drawing.value is None or drawing.value["svg"] is None:
        return drawing
    return Part(value={**drawing.value, "svg": Markup(drawing.value["svg"])})


def _questions(shown: dict[str, Any], mistakes: Mistakes, undecided: list[dict[str, Any]]) -> list[dict[str, Any]]:
    why_not = {item["interrupt_id"]: WHY_NOT.get(item["why_not"] or "") for item in undecided}
    questions = []
    for asked in shown["waiting_for"]["questions"]:
        given, wrong = mistakes.get(asked["interrupt_id"], ({}, {}))
        fields = _decision_form(asked).html(given, wrong)
        questions.append({**asked, "fields": fields, "wrong": wrong, "why_not": why_not.get(asked["interrupt_id"])})
    return questions
