"""A stored query: a form made from its parameters, and the rows that it finds or what it changes.

A read has its values in the address, unless they are long; the next rows are read from the same version. A mutation
may wait for approval.

Above it: the handlers of `/graphs`. Below it: `query_form`, `graph.query_run`.
"""

from __future__ import annotations

from typing import Any

from penstock.base import limits
from penstock.base.errors import Denied, PenstockError
from penstock.console.forms import Fields
from penstock.console.query_form import QueryField, Values, query_fields, read_values
from penstock.console.visits import Page, Shown, Visit

__all__ = ["query"]

_POINTER = "/params/"
_OFFSET_DIGITS = 9


async def query(visit: Visit) -> Shown:
    """Show a stored query; run it."""
    graph_id, name = visit.path["graph_id"], visit.path["name"]
    stored = await visit.call("graph.queries_get", graph_id=graph_id, name=name)
    fields = query_fields(stored["params"])
    by_address = not stored["mutation"] and not any(field.is_long for field in fields)
    sent = visit.form if visit.form is not None else visit.query
    runs = visit.form is not None or (by_address and bool(visit.query.text("run")))
    given: dict[str, Any] = {"answer": None, "mistakes": {}, "mistake": None, "offset": 0}
    if runs:
        given |= await _run(visit, (graph_id, name), fields, sent)
    if given["answer"] and given["answer"].get("held"):
        held = given["answer"]["held"]
        return Page("graphs/held.html", {"section": "graphs", "graph_id": graph_id, "held": held}, 202)
    details = {
        "graph_id": graph_id,
        "query": stored,
        "fields": fields,
        "sent": sent,
        "branch": sent.text("branch"),
        "snapshot": sent.text("snapshot"),
        "method": "get" if by_address else "post",
        **given,
    }
    return Page("graphs/query.html", {"section": "graphs", **details}, 422 if runs and _is_wrong(given) else 200)


def _is_wrong(given: dict[str, Any]) -> bool:
    return bool(given["mistakes"]) or given["mistake"] is not None


async def _run(visit: Visit, named: tuple[str, str], fields: list[QueryField], sent: Fields) -> dict[str, Any]:
    """Run the query with what was sent; return its answer, or what is wrong with which field."""
    values = read_values(fields, sent)
    if not isinstance(values, Values):
        return {"mistakes": values}
    text = sent.text("offset")
    offset = int(text) if text.isascii() and text.isdecimal() and len(text) <= _OFFSET_DIGITS else 0
    snapshot = sent.text("snapshot") or None
    try:
        answer = await visit.call(
            "graph.query_run",
            graph_id=named[0],
            name=named[1],
            params=values.params,
            branch=None if snapshot else sent.text("branch") or None,
            snapshot=snapshot,
            limit=limits.CONSOLE_ROWS if sent.text("reads") else None,
            offset=offset or None,
        )
    except Denied:
        raise
    except PenstockError as error:
        return {"mistakes": _mistakes(error, fields), "mistake": error}
    return {"answer": answer, "offset": offset}


def _mistakes(error: PenstockError, fields: list[QueryField]) -> dict[str, str]:
    """Return what an operation found wrong, by the parameter."""
    listed, names = error.details.get("errors"), {field.name for field in fields}
    found: dict[str, str] = {}
    for item in listed if isinstance(listed, list) else ():
        if isinstance(item, dict):
            name = str(item.get("pointer", "")).removeprefix(_POINTER).partition("/")[0]
            if name in names:
                found.setdefault(name, str(item.get("message")))
    return found
