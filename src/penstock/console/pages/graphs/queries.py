"""A stored query: a form made from its parameters, and the rows that it finds or what it changes.

A read has its values in the address, unless they are long; the next rows are read from the same version. A mutation
may wait for approval.

Above it: the handlers of `/graphs`. Below it: `html_form`, `graph.query_run`.
"""

from __future__ import annotations

from typing import Any

from penstock.asgi.forms import Fields
from penstock.base import limits
from penstock.base.errors import Denied, PenstockError
from penstock.base.json import JsonObject, JsonValue
from penstock.console.visits import Page, Shown, Visit
from penstock.html_form.form import FIELD_PREFIXES, AnswerForm, UnreadableFields, answer_form

__all__ = ["query"]

_OFFSET_DIGITS = 9


async def query(visit: Visit) -> Shown:
    """Show a stored query; run it."""
    graph_id, name = visit.path["graph_id"], visit.path["name"]
    stored = await visit.call("graph.queries_get", graph_id=graph_id, name=name)
    form = _form(stored["params"])
    by_address = not stored["mutation"] and not (form and form.is_long)
    sent = visit.form if visit.form is not None else visit.query
    edited = form.edited(sent) if form is not None else None
    runs = edited is None and (visit.form is not None or (by_address and bool(visit.query.text("run"))))
    given: dict[str, Any] = {"answer": None, "mistakes": {}, "mistake": None, "offset": 0}
    if runs:
        given |= await _run(visit, (graph_id, name), form, sent)
    if given["answer"] and given["answer"].get("held"):
        held = given["answer"]["held"]
        return Page("graphs/held.html", {"section": "graphs", "graph_id": graph_id, "held": held}, 202)
    written = sent if edited is None else edited
    details = {
        "graph_id": graph_id,
        "query": stored,
        "fields": None if form is None else form.html(written, given["mistakes"]),
        "params": {name: texts for name, texts in written.items() if name.startswith(FIELD_PREFIXES)},
        "branch": sent.text("branch"),
        "snapshot": sent.text("snapshot"),
        "method": "get" if by_address else "post",
        **given,
    }
    return Page("graphs/query.html", {"section": "graphs", **details}, 422 if runs and _is_wrong(given) else 200)


def _form(params: list[dict[str, Any]]) -> AnswerForm | None:
    """Return the form of the parameters: those that may be null may be left out."""
    members: JsonObject = {}
    for param in params:
        about = {"description": param["description"]} if param["description"] else {}
        members[param["name"]] = {**param["schema"], **about}
    needed: list[JsonValue] = [param["name"] for param in params if not param["nullable"]]
    return answer_form({"type": "object", "properties": members, "required": needed}) if members else None


def _is_wrong(given: dict[str, Any]) -> bool:
    return bool(given["mistakes"]) or given["mistake"] is not None


async def _run(visit: Visit, named: tuple[str, str], form: AnswerForm | None, sent: Fields) -> dict[str, Any]:
    """Run the query with what was sent; return its answer, or what is wrong with which field."""
    params = {} if form is None else form.answer(sent)
    if isinstance(params, UnreadableFields):
        return {"mistakes": params.wrong}
    text = sent.text("offset")
    offset = int(text) if text.isascii() and text.isdecimal() and len(text) <= _OFFSET_DIGITS else 0
    snapshot = sent.text("snapshot") or None
    try:
        answer = await visit.call(
            "graph.query_run",
            graph_id=named[0],
            name=named[1],
            params=params,
            branch=None if snapshot else sent.text("branch") or None,
            snapshot=snapshot,
            limit=limits.CONSOLE_ROWS if sent.text("reads") else None,
            offset=offset or None,
        )
    except Denied:
        raise
    except PenstockError as error:
        placed = {} if form is None else form.placed(error, "/params", sent)
        return {"mistakes": {place: found for place, found in placed.items() if place}, "mistake": error}
    return {"answer": answer, "offset": offset}
