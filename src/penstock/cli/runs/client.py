"""How commands about runs call operations: on a server or through the gate on a file, one like the other.

What `--json` prints is the answer of the operation, whoever gave it. A run may be named by the beginning of its id.

Above it: `changes`, `looks`. Below it: `surfaces`, `targets`, `endings`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from penstock.base.errors import NotFound
from penstock.base.json import JsonObject, JsonValue
from penstock.base.text import clean
from penstock.cli.targets.clients import OperationClient, open_client
from penstock.cli.targets.run_ids import CANDIDATES_MAX, match_run
from penstock.cli.targets.selection import ProfileOption, ServerOption, TargetFileOption, choose_target
from penstock.cli.terminal.console import console_for
from penstock.cli.terminal.exits import exit_with, print_json
from penstock.client.table import find_operation

__all__ = [
    "IdempotencyOption",
    "JsonOption",
    "NodeOption",
    "NoteOption",
    "ProfileOption",
    "RunArgument",
    "RunClient",
    "ServerOption",
    "TargetFileOption",
    "TargetOptions",
    "VisitOption",
    "call_and_tell",
    "find_run",
    "on_runs",
    "present",
    "tell",
]

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="The run's id, or the beginning of it.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the answer of the operation as JSON.")]
NodeOption = Annotated[
    str | None, typer.Option("--node", "--node-id", metavar="NODE", help="Which node is meant, if several are waiting.")
]
VisitOption = Annotated[
    int | None, typer.Option("--visit", metavar="N", min=1, help="Which visit of the node, if several are open.")
]
NoteOption = Annotated[
    str | None,
    typer.Option(
        "--by",
        "--note",
        metavar="NOTE",
        help="On whose word: a note for the history. Who does it is you, as the machine says.",
    ),
]
IdempotencyOption = Annotated[
    str | None,
    typer.Option(
        "--idempotency-key", metavar="KEY", help="The same key makes the call happen once, however often it is made."
    ),
]

_NOT_FOUND: Final = "EXECUTION_NOT_FOUND"


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetOptions:
    """The options that say where a command works."""

    server: str | None
    profile: str | None
    database: Path | None

    def arguments(self) -> list[str]:
        """The options that name this place again."""
        named = (("--server", self.server), ("--profile", self.profile), ("--db", self.database))
        return [part for option, value in named if value for part in (option, str(value))]


@dataclass(frozen=True, slots=True)
class RunClient:
    """Calls about runs at one place."""

    surface: OperationClient

    def call(self, operation: str, arguments: Mapping[str, JsonValue], *, idempotency_key: str | None = None) -> Any:
        """The answer of an operation on the run that `execution_id` names, in full or by the beginning of its id."""
        given = dict(arguments)
        try:
            return self.surface.call(operation, given, idempotency_key=idempotency_key)
        except NotFound as error:
            if error.code != _NOT_FOUND or "execution_id" not in given:
                raise
            named = str(given["execution_id"])
            page: Any = self.surface.call("execution.list", {"text": named, "limit": CANDIDATES_MAX})
            given["execution_id"] = match_run(named, page["items"], error)
            return self.surface.call(operation, given, idempotency_key=idempotency_key)

    def pages(self, operation: str, arguments: Mapping[str, JsonValue]) -> Iterator[Any]:
        """Every page of a list."""
        cursor: JsonValue = None
        while True:
            page = self.call(operation, {**arguments, **({} if cursor is None else {"cursor": cursor})})
            yield page
            cursor = page.get("next_cursor")
            if cursor is None:
                return


def find_run(calls: RunClient, run: str) -> Any:
    """The view of a run that was named, in full or by the beginning of its id."""
    return calls.call("execution.status", {"execution_id": run})


@contextmanager
def _opened(where: TargetOptions, operation: str) -> Iterator[RunClient]:
    target = choose_target(where.server, where.profile, where.database)
    # There is no run in a file that does not exist, so none is made.
    with open_client(target, find_operation(operation), create=False) as surface:
        yield RunClient(surface)


def on_runs(where: TargetOptions, operation: str, work: Callable[[RunClient], int], *, as_json: bool) -> None:
    """Do the work of a command that calls an operation (and may look at runs on the way), and leave."""

    def there() -> int:
        with _opened(where, operation) as calls:
            return work(calls)

    exit_with(there, as_json=as_json)


def call_and_tell(
    where: TargetOptions,
    operation: str,
    arguments: Callable[[], Mapping[str, JsonValue]],
    told: Callable[[Any], str],
    *,
    idempotency_key: str | None,
    as_json: bool,
) -> None:
    """Call one operation and say what came of it.

    Arguments are read when the call is made, so that what cannot be read is told like everything else.
    """

    def work(calls: RunClient) -> int:
        answer = calls.call(operation, present(arguments()), idempotency_key=idempotency_key)
        tell(answer, told, as_json=as_json)
        return 0

    on_runs(where, operation, work, as_json=as_json)


def present(arguments: Mapping[str, JsonValue]) -> JsonObject:
    """The arguments that were given."""
    return {name: value for name, value in arguments.items() if value is not None}


def tell(answer: Any, told: Callable[[Any], str], *, as_json: bool) -> None:
    """Print the answer of a change: as JSON, or in a sentence with the status that the run has now."""
    if as_json:
        print_json(answer)
        return
    status = f"; the run is now {answer['status']}" if "status" in answer else ""
    console_for(sys.stdout).print(clean(f"{told(answer)}{status}"))
