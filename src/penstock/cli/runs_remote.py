"""`penstock runs … --server|--profile`: the same commands about the runs of a server, as calls of its operations.

What comes back is shown as the operations' own commands show it; with --json it is the answer of the operation. Exit
codes are those of the operations, too.

Above it: `runs_look`, `runs_change`. Below it: `operations`, `surfaces`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from penstock.base.json import JsonObject, JsonValue
from penstock.cli.endings import finish
from penstock.cli.operations import call_and_show, every_page, show_call
from penstock.cli.retrying import retry_point
from penstock.cli.surfaces import CallSurface, open_surface
from penstock.cli.targets import ProfileOption, ServerOption, choose_target
from penstock.cli.values import UsageError
from penstock.client.table import find_operation
from penstock.definitions.durations import parse_instant_ms
from penstock.engine.records import Record

__all__ = ["AskedQuestion", "ProfileOption", "ServerOption", "answer_there", "call_there", "retry_there"]

_PAGE = 500
AskedQuestion = tuple[str, JsonObject, JsonValue]
"""What a question says, the schema of its answer, and the answer that it is to decline."""


def call_there(
    server: str | None,
    profile: str | None,
    operation: str,
    arguments: Callable[[], Mapping[str, JsonValue]],
    *,
    as_json: bool,
) -> bool:
    """Call an operation of the server that was named, show the answer, and leave; False when none was named.

    Arguments are read when the server is asked, so that what cannot be read is told like everything else.
    """

    def work(surface: CallSurface) -> int:
        given: JsonObject = {name: value for name, value in arguments().items() if value is not None}
        called = find_operation(operation)
        if operation == "execution.history":
            return show_call(called, given, every_page(surface, called, {**given, "limit": _PAGE}), as_json=as_json)
        return call_and_show(surface, called, given, as_json=as_json)

    return _there(server, profile, work, operation=operation, as_json=as_json)


def _there(
    server: str | None,
    profile: str | None,
    work: Callable[[CallSurface], int],
    *,
    operation: str = "execution.status",
    as_json: bool,
) -> bool:
    if not server and not profile:
        return False

    def on_server() -> int:
        with open_surface(choose_target(server, profile, None), find_operation(operation)) as surface:
            return work(surface)

    finish(on_server, as_json=as_json)
    return True


def answer_there(  # what the command was given
    server: str | None,
    profile: str | None,
    run: str,
    place: tuple[str | None, int | None],
    answer_of: Callable[[AskedQuestion], JsonValue],
    *,
    as_json: bool,
) -> bool:
    """Answer a question of a server's run; `answer_of` finds the answer. False when no server was named."""
    node, visit = place

    def work(surface: CallSurface) -> int:
        questions = _waiting(surface, run, "questions")
        meant = [item for item in questions if node in (None, item["node_id"]) and visit in (None, item["visit"])]
        if len(meant) != 1:
            raise UsageError(_not_one(run, "question", questions, meant))
        question = meant[0]
        prompt = question["prompt"]
        told = prompt if isinstance(prompt, str) else str(prompt)
        value = answer_of((told, question["answer_schema"] or {}, question.get("decline")))
        given: JsonObject = {"execution_id": run, "answer": value, "interrupt_id": question["interrupt_id"]}
        return call_and_show(surface, find_operation("execution.answer"), given, as_json=as_json)

    return _there(server, profile, work, as_json=as_json)


def retry_there(
    server: str | None, profile: str | None, run: str, place: tuple[str | None, int | None], *, as_json: bool
) -> bool:
    """Try again what failed in a server's run. False when no server was named."""
    node, visit = place

    def work(surface: CallSurface) -> int:
        if _status(surface, run)["status"] == "failed":
            given: JsonObject = {"execution_id": run, "at_sequence": retry_point(_history(surface, run)).seq}
            return call_and_show(surface, find_operation("execution.fork"), given, as_json=as_json)
        doubtful = [item for item in _waiting(surface, run, "activities") if item["outcome_unknown"]]
        meant = [item for item in doubtful if node in (None, item["node_id"]) and visit in (None, item["visit"])]
        if len(meant) != 1:
            raise UsageError(_not_one(run, "activity of unknown outcome", doubtful, meant))
        given = {"execution_id": run, "node_id": meant[0]["node_id"], "visit": meant[0]["visit"]}
        return call_and_show(surface, find_operation("execution.retry"), given, as_json=as_json)

    return _there(server, profile, work, as_json=as_json)


def _status(surface: CallSurface, run: str) -> Any:
    return surface.call("execution.status", {"execution_id": run})


def _waiting(surface: CallSurface, run: str, kind: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = _status(surface, run)["waiting_for"][kind]
    return found


def _not_one(run: str, noun: str, found: list[dict[str, Any]], meant: list[dict[str, Any]]) -> str:
    listed = ", ".join(f"{item['node_id']} (visit {item['visit']})" for item in meant or found)
    if meant:
        return f"run {run} has more than one {noun}: {listed}; choose with --node and --visit"
    return f"run {run} has no {noun} there" + (f"; it has {listed}" if listed else "")


def _history(surface: CallSurface, run: str) -> list[Record]:
    whole: Any = every_page(surface, find_operation("execution.history"), {"execution_id": run, "limit": _PAGE})
    return [
        Record(
            seq=item["seq"],
            kind=item["kind"],
            name=item["name"],
            at=parse_instant_ms(item["at"] or "") or 0,
            content=item["payload"],
        )
        for item in whole["items"]
    ]
