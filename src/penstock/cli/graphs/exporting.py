"""`penstock graph export`: writes a version of a graph, all of it, as records or as Parquet.

The version is fixed with the first page, so that commits that are made meanwhile change nothing.

Above it: the group of commands on graphs. Below it: the operations `graph.export` and `graph.schema_get`, `parquet`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated, Literal

from penstock.base import limits
from penstock.base.errors import Rejected
from penstock.base.json import JsonObject
from penstock.cli.declaration import Argument, Option, echo
from penstock.cli.graphs.parquet import parquet_files, require_parquet
from penstock.cli.targets.clients import OperationClient, open_client
from penstock.cli.targets.selection import ProfileOption, ServerOption, TargetFileOption, choose_target
from penstock.cli.terminal.exits import JsonOption, exit_with, print_json
from penstock.cli.terminal.values import UsageError
from penstock.client.operations import find_operation
from penstock.graph.records import parse_record
from penstock.graph.schema.model import Schema
from penstock.graph.schema.read import read_schema

__all__ = ["export_command"]

_OPERATION = "graph.export"
_RECORDS_OF_A_PAGE = limits.GRAPH_EXPORT_RECORDS_MAX


def export_command(  # noqa: PLR0913  # every option is one the user can give
    graph_id: Annotated[str, Argument(metavar="GRAPH", help="The graph.")],
    *,
    out: Annotated[
        Path | None,
        Option("--out", metavar="PATH", help="A file for records (otherwise they are printed), a folder for Parquet."),
    ] = None,
    form: Annotated[
        Literal["ndjson", "parquet"],
        Option("--format", help="Records, as `graphs load` takes them, or Parquet, a file for each type."),
    ] = "ndjson",
    branch: Annotated[str, Option("--branch", help="The branch.")] = "main",
    snapshot: Annotated[str | None, Option("--snapshot", help="A commit, instead of a branch.")] = None,
    cursor: Annotated[
        str | None,
        Option("--cursor", help="Where to continue: `next_cursor` of an earlier page, with its --snapshot."),
    ] = None,
    limit: Annotated[int | None, Option("--limit", min=1, help="How many records at most.")] = None,
    server: ServerOption = None,
    profile: ProfileOption = None,
    target_file: TargetFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Export the nodes and edges of a version.

    Records are written as `penstock graph load` takes them. With --format parquet, a folder gets a file for each type;
    that needs the extra `parquet`.
    """

    def work() -> int:
        if form == "parquet":
            require_parquet()
            if out is None:
                raise UsageError("--format parquet needs --out FOLDER")
        elif as_json and out is not None:
            raise UsageError("--json prints the records; leave out --out")
        given: JsonObject = {"graph_id": graph_id, "branch": branch}
        if snapshot is not None:
            given = {"graph_id": graph_id, "snapshot": snapshot}
        with open_client(choose_target(server, profile, target_file), find_operation(_OPERATION)) as client:
            pages = _Pages(client, given, cursor, limit)
            if form == "parquet" and out is not None:
                counts = _write_parquet(client, pages, graph_id, out)
                shown: JsonObject = {"graph_commit_id": pages.commit_id, "files": {**counts}}
                if as_json:
                    print_json(shown)
                else:
                    echo(f"{len(counts)} files with {sum(counts.values())} rows in {out}, of {pages.commit_id}")
            elif as_json:
                data = "".join(pages)
                records = data.count("\n")
                ended: JsonObject = {"records": records, "data": data, "next_cursor": pages.cursor}
                print_json({"graph_commit_id": pages.commit_id, **ended})
            else:
                _write_records(pages, out)
        return 0

    exit_with(work, as_json=as_json)


class _Pages:
    """The pages of an export, all of one version."""

    def __init__(self, client: OperationClient, given: JsonObject, cursor: str | None, limit: int | None) -> None:
        self._client, self._given, self._limit = client, given, limit
        self.cursor = cursor
        self.commit_id = ""

    def __iter__(self) -> Iterator[str]:
        left = self._limit
        while True:
            size = min(left or _RECORDS_OF_A_PAGE, _RECORDS_OF_A_PAGE)
            answer = self._client.call(_OPERATION, {**self._given, "cursor": self.cursor, "limit": size})
            assert isinstance(answer, dict), "graph.export answers with an object"
            following = answer["next_cursor"]
            self.cursor = None if following is None else str(following)
            self.commit_id = str(answer["graph_commit_id"])
            self._given = {"graph_id": self._given["graph_id"], "snapshot": self.commit_id}
            left = None if left is None else left - int(str(answer["records"]))
            yield str(answer["data"])
            if self.cursor is None or left == 0:
                return


def _write_records(pages: _Pages, out: Path | None) -> None:
    if out is None:
        for page in pages:
            sys.stdout.write(page)
        return
    partial = out.with_name(f"{out.name}.partial")
    try:
        with partial.open("w", encoding="utf-8", newline="") as file:
            for page in pages:
                file.write(page)
        partial.rename(out)
    except OSError as error:
        message = f"{out} cannot be written ({type(error).__name__})"
        raise Rejected("FILE_UNWRITABLE", message, "name another file") from error
    finally:
        partial.unlink(missing_ok=True)


def _write_parquet(client: OperationClient, pages: _Pages, graph_id: str, folder: Path) -> dict[str, int]:
    schema = _schema(client, graph_id)
    rest = iter(pages)
    first = next(rest)  # it says which version this is
    with parquet_files(folder, schema, {"penstock.graph": graph_id, "penstock.commit": pages.commit_id}) as files:
        for page in chain((first,), rest):
            for line in page.removesuffix("\n").split("\n") if page else ():  # other separators stand in texts
                record = parse_record(line, schema)
                if isinstance(record, tuple):
                    problem = str(record[0]).removeprefix("line 1: ")
                    message = f"a record does not fit the schema of the graph: {problem}"
                    hint = "the schema has changed since that version: export it with --format ndjson"
                    raise Rejected("EXPORT_SCHEMA_CHANGED", message, hint)
                files.add(record)
        return files.finish()


def _schema(client: OperationClient, graph_id: str) -> Schema:
    answer = client.call("graph.schema_get", {"graph_id": graph_id})
    assert isinstance(answer, dict), "graph.schema_get answers with an object"
    reading = read_schema(str(answer["schema"]))
    assert reading.schema is not None, "a graph has a schema that can be read"
    return reading.schema
