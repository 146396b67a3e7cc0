"""Parts of a run on pages of their own: a visit of a node, a record, a value, an export, and two runs compared.

Above it: `pages`. Below it: `visits`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.base import limits
from penstock.base.errors import NotFound
from penstock.console.pages.runs.run import VALUES
from penstock.console.rendering import cut_value, whole_value
from penstock.console.visits import Page, Shown, Text, Visit

__all__ = ["comparison", "export", "record", "value", "visit_of_node"]

_NUMBER_DIGITS_MAX = 16
# What a visit was given, and what came of it, by the member of the record.
_GIVEN = ("arguments", "input", "prompt", "message")
_CAME = ("output", "result", "error", "answer", "payload")


async def value(visit: Visit) -> Shown:
    """Show the whole of a value as text."""
    name = visit.path["name"]
    if name not in VALUES:
        raise NotFound("VALUE_NOT_FOUND", f"a run has no {name[:40]}")
    shown = await visit.call("execution.status", execution_id=visit.path["execution_id"])
    return Text(whole_value(shown[name]))


async def record(visit: Visit) -> Shown:
    """Show the whole of a record as text."""
    seq = visit.path["seq"]
    if not seq.isdecimal() or len(seq) > _NUMBER_DIGITS_MAX or int(seq) < 1:
        raise NotFound("RECORD_NOT_FOUND", "there is no such record")
    history = await visit.call(
        "execution.history", execution_id=visit.path["execution_id"], after=int(seq) - 1, limit=1
    )
    if not history["items"] or history["items"][0]["seq"] != int(seq):
        raise NotFound("RECORD_NOT_FOUND", f"there is no record {seq[:20]}")
    return Text(whole_value(history["items"][0]))


async def visit_of_node(visit: Visit) -> Shown:
    """Show one visit of a node: what it was given, what came of it, every attempt and every record."""
    execution_id, node_id, ordinal = visit.path["execution_id"], visit.query.text("node"), visit.query.text("visit")
    begin = visit.query.text("from")
    if not ordinal.isdecimal() or not begin.isdecimal() or len(ordinal + begin) > _NUMBER_DIGITS_MAX:
        raise NotFound("VISIT_NOT_FOUND", "there is no such visit")
    history = await visit.call(
        "execution.history",
        execution_id=execution_id,
        after=max(int(begin) - 2, 0),
        limit=limits.CONSOLE_HISTORY_ROWS,
    )
    records = [item for item in history["items"] if _is_of(item, node_id, int(ordinal))]
    if not records:
        raise NotFound("VISIT_NOT_FOUND", f"the run did not visit {node_id[:80]} there")
    parts = [
        {"seq": item["seq"], "name": item["name"], "at": item["at"], "values": _values(item["payload"])}
        for item in records
    ]
    given = {"section": "runs", "execution_id": execution_id, "node_id": node_id, "visit": int(ordinal)}
    return Page(
        "runs/visit.html", {**given, "parts": parts, "begin": int(begin), "is_cut": bool(history["next_cursor"])}
    )


def _is_of(item: dict[str, Any], node_id: str, ordinal: int) -> bool:
    payload = item["payload"]
    return payload.get("nodeId") == node_id and payload.get("visit", 1) in (ordinal, None)


def _values(payload: dict[str, Any]) -> list[dict[str, Any]]:
    named = [(name, payload[name]) for name in (*_GIVEN, *_CAME) if payload.get(name) is not None]
    return [{"name": name, "cut": cut_value(found)} for name, found in named]


async def export(visit: Visit) -> Shown:
    """Show a run and its history as one JSON document, as far as a page carries it."""
    execution_id = visit.path["execution_id"]
    shown = await visit.call("execution.status", execution_id=execution_id)
    records: list[Any] = []
    cursor: str | None = None
    while len(records) < limits.CONSOLE_HISTORY_FILE_RECORDS_MAX:
        page = await visit.call(
            "execution.history", execution_id=execution_id, cursor=cursor, limit=limits.CONSOLE_HISTORY_ROWS
        )
        records += page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    whole = {"execution": shown, "history": records, "complete": cursor is None}
    return Text(msgspec.json.format(msgspec.json.encode(whole)).decode(), "run.json")


async def comparison(visit: Visit) -> Shown:
    """Show two runs beside each other: what differs in how they began, what they visited, and what came of it."""
    other = visit.query.text("with")
    first = await visit.call("execution.status", execution_id=visit.path["execution_id"])
    second = await visit.call("execution.status", execution_id=other) if other else None
    given = {"section": "runs", "first": first, "second": second, "other": other}
    if second is None:
        return Page("runs/compare.html", {**given, "nodes": [], "values": []})
    by_node = [{node["node_id"]: node for node in run["nodes"]} for run in (first, second)]
    nodes = [
        {"node_id": name, "first": by_node[0].get(name), "second": by_node[1].get(name)}
        for name in dict.fromkeys((*by_node[0], *by_node[1]))
    ]
    for node in nodes:
        node["differs"] = _stands(node["first"]) != _stands(node["second"])
    values = [
        {
            "name": name,
            "first": cut_value(first[name]),
            "second": cut_value(second[name]),
            "differs": first[name] != second[name],
        }
        for name in VALUES
        if first[name] is not None or second[name] is not None
    ]
    return Page("runs/compare.html", {**given, "nodes": nodes, "values": values})


def _stands(node: dict[str, Any] | None) -> tuple[object, ...] | None:
    return None if node is None else (node["status"], node["visits"], node["attempts"], node["error_code"])
