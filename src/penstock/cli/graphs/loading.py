"""`penstock graph load`: loads a file of records into a graph, in pieces that a server takes, with progress.

A file that fits into one call is loaded at once: all of it or nothing. A larger one becomes several commits on a
branch; use a branch of its own and merge it when everything is there.

Above it: the group of commands on graphs. Below it: the operation `graph.load`.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Annotated, Literal

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue
from penstock.cli.declaration import Argument, Option, echo
from penstock.cli.graphs.files import text_of
from penstock.cli.targets.clients import open_client
from penstock.cli.targets.selection import (
    FileTarget,
    ProfileOption,
    ServerOption,
    Target,
    TargetFileOption,
    choose_target,
)
from penstock.cli.terminal.exits import CallHeld, JsonOption, exit_with, print_json
from penstock.cli.terminal.values import UsageError
from penstock.client.operations import find_operation

__all__ = ["load_command"]

_OPERATION = "graph.load"


def load_command(  # noqa: PLR0913  # every option is one the user can give
    graph_id: Annotated[str, Argument(metavar="GRAPH", help="The graph.")],
    data: Annotated[Path, Argument(metavar="FILE", help="Records, one JSON object on each line.")],
    *,
    mode: Annotated[
        Literal["append", "merge", "overwrite"],
        Option("--mode", help="How to treat entities that exist: refuse or replace them, or replace the whole type."),
    ] = "merge",
    branch: Annotated[str, Option("--branch", help="The branch.")] = "main",
    source: Annotated[
        str | None, Option("--source", help="Fork the branch from this one if it does not exist.")
    ] = None,
    if_graph_commit: Annotated[
        str | None, Option("--if-graph-commit", help="Refuse the load if the branch is not at this commit.")
    ] = None,
    message: Annotated[str | None, Option("--message", help="Why, for the list of commits.")] = None,
    server: ServerOption = None,
    profile: ProfileOption = None,
    target_file: TargetFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Load nodes and edges, all of them or none.

    A file that is too large for one call is loaded in pieces, each of them a commit: load it into a branch of its own.
    """

    def work() -> int:
        operation = find_operation(_OPERATION)
        target = choose_target(server, profile, target_file)
        pieces = list(_pieces(text_of(data), _characters_at_once(target)))
        if len(pieces) > 1 and mode == "overwrite":
            raise UsageError("the file is too large to overwrite at once; load it with --mode merge into a new branch")
        if len(pieces) > 1 and if_graph_commit is not None:
            raise UsageError("the file is too large for one commit; --if-graph-commit is for a single one")
        named = {"source": source, "if_graph_commit": if_graph_commit, "message": message}
        more: JsonObject = {name: value for name, value in named.items() if value is not None}
        answers: list[JsonValue] = []
        with open_client(target, operation) as client:
            for number, piece in enumerate(pieces, 1):
                arguments: JsonObject = {"graph_id": graph_id, "data": piece, "mode": mode, "branch": branch, **more}
                try:
                    answer = client.call(_OPERATION, arguments)
                except CallHeld:
                    if len(pieces) > 1 and not as_json:
                        echo(f"piece {number} of {len(pieces)} is held; the pieces after it were not sent")
                    raise
                answers.append(answer)
                if not as_json and isinstance(answer, dict):
                    echo(f"piece {number} of {len(pieces)}: {answer['total_entities']} entities on {branch}")
        if as_json:
            print_json({"pieces": answers})
        return 0

    exit_with(work, as_json=as_json)


def _characters_at_once(target: Target) -> int:
    """What one call can hold. On a file only the operation has a limit; a request needs room for escapes."""
    return limits.GRAPH_LOAD_CHARACTERS_MAX if isinstance(target, FileTarget) else limits.REQUEST_BYTES_MAX // 3


def _pieces(text: str, limit: int) -> Iterator[str]:
    """Yield the lines of a file in pieces of so many characters."""
    piece: list[str] = []
    size = 0
    for line in StringIO(text, newline="\n"):
        if piece and size + len(line) > limit:
            yield "".join(piece)
            piece, size = [], 0
        piece.append(line)
        size += len(line)
    if piece:
        yield "".join(piece)
