"""`penstock graph query test`: test cases of queries, on a graph that exists only for them.

    schema: schema.pg
    queries: queries            # a file or a folder
    data: seed.jsonl
    cases:
      - name: the tasks of Ada
        query: tasks_of
        params: {owner: ada}
        rows: [{task: call-acme}]          # or affected_nodes and affected_edges, or error: a code

Every case begins with the data of the file. Exit codes: 0 when all cases hold, 1 when one does not, 2 when a file could
not be read.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
import yaml

from penstock.app.files.graphs import declared_graph
from penstock.app.gate import local_owner, open_gate
from penstock.app.penstock import Penstock
from penstock.app.settings.graphs import GraphSettings
from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject, JsonValue
from penstock.cli.declaration import Argument, echo
from penstock.cli.graphs.files import files_in, text_of
from penstock.cli.terminal.event_loop import exit_with_async
from penstock.cli.terminal.exits import JsonOption, print_json
from penstock.cli.terminal.values import UsageError
from penstock.operations.gate.internal_callers import internal_call, system_principal
from penstock.operations.gate.pipeline import Gate
from penstock.operations.graphs.configuring import CONFIGURE

__all__ = ["cases_command"]

_GRAPH = "test"


class QueryCase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call of a query, and what is expected of it."""

    name: str
    query: str
    params: dict[str, Any] = {}
    rows: list[dict[str, Any]] | None = None
    affected_nodes: int | None = None
    affected_edges: int | None = None
    error: str | None = None


class CaseFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file with test cases. Paths are relative to it."""

    schema: str
    queries: str
    cases: list[QueryCase]
    data: str | None = None


def cases_command(
    files: Annotated[list[str], Argument(metavar="FILE...", help="Files with test cases (.tests.yaml).")],
    *,
    as_json: JsonOption = False,
) -> None:
    """Run the test cases of queries, each on a graph of its own.

    Each file names a schema, queries and data; nothing is stored. A mutation is made on a branch of its own, so that
    every case begins with the same data.
    """

    async def work() -> int:
        told: list[JsonValue] = []
        for path in files_in(files, ".yaml"):
            told += await _results(path)
        failed = [item for item in told if isinstance(item, dict) and item["problem"] is not None]
        if as_json:
            print_json({"ok": not failed, "cases": told})
            return 1 if failed else 0
        for item in told:
            if isinstance(item, dict):
                mark = "passed" if item["problem"] is None else "failed"
                echo(f"{mark}  {item['file']}: {item['name']}")
                if item["problem"] is not None:
                    echo(f"        {item['problem']}")
        echo(f"{len(told) - len(failed)} of {len(told)} cases hold")
        return 1 if failed else 0

    exit_with_async(work, as_json=as_json)


def _read(path: Path) -> CaseFile:
    try:
        return msgspec.convert(yaml.safe_load(text_of(path)), CaseFile)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise UsageError(f"{path}: {error}") from None


async def _results(path: Path) -> list[JsonObject]:
    written, folder = _read(path), path.parent
    settings = GraphSettings(schema=str(folder / written.schema), queries=(str(folder / written.queries),))
    given = declared_graph(_GRAPH, settings)
    with tempfile.TemporaryDirectory(prefix="penstock-") as place:
        async with Penstock.open(Path(place) / "test.db", perform=False) as penstock, open_gate(penstock) as gate:
            await internal_call(gate, system_principal("graphs", "graph:admin"), CONFIGURE, given)
            if written.data is not None:
                data: JsonObject = {"graph_id": _GRAPH, "data": text_of(folder / written.data)}
                await internal_call(gate, local_owner(), "graph.load", data, surface="cli")
            return [
                {"file": str(path), "name": case.name, "problem": await _problem(gate, number, case)}
                for number, case in enumerate(written.cases)
            ]


async def _problem(gate: Gate, number: int, case: QueryCase) -> str | None:
    """What is not as expected; None if everything is."""
    branch = f"case-{number}"
    await internal_call(
        gate, local_owner(), "graph.branches_create", {"graph_id": _GRAPH, "name": branch}, surface="cli"
    )
    arguments: JsonObject = {"graph_id": _GRAPH, "name": case.query, "params": case.params, "branch": branch}
    try:
        answer = msgspec.to_builtins(
            await internal_call(gate, local_owner(), "graph.query_run", arguments, surface="cli")
        )
    except PenstockError as error:
        return None if error.code == case.error else f"it is refused with {error.code}: {error.message}"
    if case.error is not None:
        return f"expected {case.error}, but it succeeded"
    return next(_differences(case, answer), None)


def _differences(case: QueryCase, answer: JsonObject) -> Iterator[str]:
    for name in ("rows", "affected_nodes", "affected_edges"):
        expected = getattr(case, name)
        if expected is not None and answer.get(name) != expected:
            yield f"expected {name} {expected!r}, but got {answer.get(name)!r}"
