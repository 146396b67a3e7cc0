"""Parts of a run on pages of their own: a visit of a node, a record, a value, an export, and two runs compared.

Above it: `pages`. Below it: `visits`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from penstock.base import limits
from penstock.base.encoding import encode_bytes
from penstock.base.errors import NotFound, PenstockError
from penstock.console.pages.runs.run import VALUES
from penstock.console.rendering import cut_value, whole_value
from penstock.console.visits import Download, Page, Shown, Text, Visit

__all__ = ["comparison", "export", "record", "value", "visit_of_node"]

_NUMBER_DIGITS_MAX = 16
_FIRST_PAGE = 50  # records of the first page of an export, whose size nobody knows
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
    """Show one visit of a node: its input, its result, every attempt and every record."""
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
    # The values of all records share what a page shows.
    total = sum(item["payload"].get(name) is not None for item in records for name in (*_GIVEN, *_CAME))
    most = max(2 * limits.CONSOLE_VALUE_CHARACTERS_MAX // max(total, 1), limits.CONSOLE_CELL_CHARACTERS_MAX)
    most = min(most, limits.CONSOLE_VALUE_CHARACTERS_MAX)
    parts = [
        {"seq": item["seq"], "name": item["name"], "at": item["at"], "values": _values(item["payload"], most)}
        for item in records
    ]
    given = {"section": "runs", "execution_id": execution_id, "node_id": node_id, "visit": int(ordinal)}
    return Page(
        "runs/visit.html", {**given, "parts": parts, "begin": int(begin), "is_cut": bool(history["next_cursor"])}
    )


def _is_of(item: dict[str, Any], node_id: str, ordinal: int) -> bool:
    payload = item["payload"]
    return payload.get("nodeId") == node_id and payload.get("visit", 1) in (ordinal, None)


def _values(payload: dict[str, Any], most: int) -> list[dict[str, Any]]:
    named = [(name, payload[name]) for name in (*_GIVEN, *_CAME) if payload.get(name) is not None]
    return [{"name": name, "cut": cut_value(found, most)} for name, found in named]


async def export(visit: Visit) -> Shown:
    """Give a run and its whole history as one JSON file, however long it is; or what comes after a record."""
    execution_id, after = visit.path["execution_id"], visit.query.text("after")
    if after and (not after.isdecimal() or len(after) > _NUMBER_DIGITS_MAX):
        raise NotFound("RECORD_NOT_FOUND", "there is no such record")
    shown = await visit.call("execution.status", execution_id=execution_id)
    first = await visit.call("execution.history", execution_id=execution_id, after=int(after or 0), limit=_FIRST_PAGE)
    return Download(_exported(visit, shown, first), "run.json")


async def _exported(visit: Visit, shown: dict[str, Any], page: dict[str, Any]) -> AsyncGenerator[bytes, None]:
    """Yield a file, page by page: with few records to a page where they are large.

    If the rest cannot be read, for example because the run was deleted or a rate limit was reached, the file says why,
    and after which record to continue.
    """
    yield b'{"execution":' + encode_bytes(shown) + b',\n"history":['
    size, separator, last = _FIRST_PAGE, b"\n", 0
    while page["items"]:
        chunk = b",\n".join(map(encode_bytes, page["items"]))
        yield separator + chunk
        separator, last, cursor = b",\n", page["items"][-1]["seq"], page["next_cursor"]
        if cursor is None:
            break
        if len(chunk) > limits.CONSOLE_EXPORT_CHUNK_BYTES:
            size = max(size * limits.CONSOLE_EXPORT_CHUNK_BYTES // len(chunk), 1)
        else:
            size = min(size * 2, limits.PAGE_LIMIT_MAX)
        try:
            page = await visit.call("execution.history", execution_id=shown["execution_id"], cursor=cursor, limit=size)
        except PenstockError as error:
            problem = {"code": error.code, "message": error.message}
            yield b'\n],\n"complete":false,"goes_on_after":%d,"problem":%b}\n' % (last, encode_bytes(problem))
            return
    yield b'\n],\n"complete":true}\n'


async def comparison(visit: Visit) -> Shown:
    """Show two runs beside each other: the differences in their inputs, their visits and their results."""
    other = visit.query.text("with")
    first = await visit.call("execution.status", execution_id=visit.path["execution_id"])
    second = await visit.call("execution.status", execution_id=other) if other else None
    given = {"section": "runs", "first": first, "second": second, "other": other}
    if second is None:
        return Page("runs/compare.html", {**given, "nodes": [], "nodes_left_out": 0, "values": []})
    by_node = [{node["node_id"]: node for node in run["nodes"]} for run in (first, second)]
    nodes = [
        {"node_id": name, "first": by_node[0].get(name), "second": by_node[1].get(name)}
        for name in dict.fromkeys((*by_node[0], *by_node[1]))
    ]
    for node in nodes:
        node["differs"] = _stands(node["first"]) != _stands(node["second"])
    left_out = max(len(nodes) - limits.CONSOLE_NODE_ROWS, 0)
    if left_out:  # what differs comes first, and the rest is the same
        nodes = sorted(nodes, key=lambda node: not node["differs"])[: limits.CONSOLE_NODE_ROWS]
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
    return Page("runs/compare.html", {**given, "nodes": nodes, "nodes_left_out": left_out, "values": values})


def _stands(node: dict[str, Any] | None) -> tuple[object, ...] | None:
    return None if node is None else (node["status"], node["visits"], node["attempts"], node["error_code"])
