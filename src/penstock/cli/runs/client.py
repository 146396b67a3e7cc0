"""How commands about runs call operations: on a server, or through the gate on a file, with the same code.

`--json` prints the answer of the operation. A run may be named by the beginning of its id.

Above it: `control`, `inspection`, `answer`. Below it: `targets`, `terminal.exits`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

from penstock.base.errors import NotFound
from penstock.base.json import JsonObject, JsonValue
from penstock.base.text import clean
from penstock.cli.declaration import Argument, Option
from penstock.cli.targets.clients import OperationClient, open_client
from penstock.cli.targets.run_ids import CANDIDATES_MAX, match_run
from penstock.cli.targets.selection import (
    IdempotencyOption,
    ProfileOption,
    ServerOption,
    TargetFileOption,
    choose_target,
)
from penstock.cli.terminal.console import console_for
from penstock.cli.terminal.exits import exit_with, print_json
from penstock.client.operations import find_operation

__all__ = [
    "IdempotencyOption",
    "JsonOption",
    "NodeOption",
    "NoteOption",
    "ProfileOption",
    "RunArgument",
    "RunClient",
    "RunOptions",
    "ServerOption",
    "TargetFileOption",
    "VisitOption",
    "exit_with_call",
    "exit_with_runs",
    "find_run",
    "present",
    "print_change",
]

RunArgument = Annotated[str, Argument(metavar="RUN", help="The run's id, or the beginning of it.")]
JsonOption = Annotated[bool, Option("--json", help="Print the answer of the operation as JSON.")]
NodeOption = Annotated[
    str | None, Option(("--node", "--node-id"), metavar="NODE", help="Which node is meant, if several are waiting.")
]
VisitOption = Annotated[
    int | None, Option("--visit", metavar="N", min=1, help="Which visit of the node, if several are open.")
]
NoteOption = Annotated[
    str | None,
    Option(
        ("--by", "--note"),
        metavar="NOTE",
        help="On whose word: a note for the history. The call is recorded as your OS user, or as the key.",
    ),
]

_NOT_FOUND: Final = "EXECUTION_NOT_FOUND"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of every command about runs: where it works, and how it prints."""

    database: TargetFileOption = None
    server: ServerOption = None
    profile: ProfileOption = None
    as_json: JsonOption = False

    def target_arguments(self) -> list[str]:
        """The options that name this target again."""
        named = (("--server", self.server), ("--profile", self.profile), ("--db", self.database))
        return [part for option, value in named if value for part in (option, str(value))]


@dataclass(frozen=True, slots=True)
class RunClient:
    """Calls operations on runs; a run may be named by the beginning of its id."""

    client: OperationClient

    def call(self, operation: str, arguments: Mapping[str, JsonValue], *, idempotency_key: str | None = None) -> Any:
        """The answer of an operation on the run that `execution_id` names, in full or by the beginning of its id."""
        given = dict(arguments)
        try:
            return self.client.call(operation, given, idempotency_key=idempotency_key)
        except NotFound as error:
            if error.code != _NOT_FOUND or "execution_id" not in given:
                raise
            named = str(given["execution_id"])
            page: Any = self.client.call("execution.list", {"text": named, "limit": CANDIDATES_MAX})
            given["execution_id"] = match_run(named, page["items"], error)
            return self.client.call(operation, given, idempotency_key=idempotency_key)

    def pages(self, operation: str, arguments: Mapping[str, JsonValue]) -> Iterator[Any]:
        """Every page of a list."""
        cursor: JsonValue = None
        while True:
            page = self.call(operation, {**arguments, **({} if cursor is None else {"cursor": cursor})})
            yield page
            cursor = page.get("next_cursor")
            if cursor is None:
                return


def find_run(client: RunClient, run: str) -> Any:
    """The view of a run that was named, in full or by the beginning of its id."""
    return client.call("execution.status", {"execution_id": run})


def exit_with_runs(options: RunOptions, operation: str, work: Callable[[RunClient], int]) -> None:
    """Do the work of a command that calls an operation (and may look at runs on the way), and exit."""

    def connected() -> int:
        target = choose_target(options.server, options.profile, options.database)
        # A file that does not exist has no runs, so it is not created.
        with open_client(target, find_operation(operation), create=False) as client:
            return work(RunClient(client))

    exit_with(connected, as_json=options.as_json)


def exit_with_call(
    options: RunOptions,
    operation: str,
    arguments: Callable[[], Mapping[str, JsonValue]],
    message: Callable[[Any], str],
    *,
    idempotency_key: str | None,
) -> None:
    """Call one operation, print its result, and exit.

    `arguments` is called late, so that a value that cannot be read is reported like every other error.
    """

    def work(client: RunClient) -> int:
        answer = client.call(operation, present(arguments()), idempotency_key=idempotency_key)
        print_change(answer, message, as_json=options.as_json)
        return 0

    exit_with_runs(options, operation, work)


def present(arguments: Mapping[str, JsonValue]) -> JsonObject:
    """The arguments that were given."""
    return {name: value for name, value in arguments.items() if value is not None}


def print_change(answer: Any, message: Callable[[Any], str], *, as_json: bool) -> None:
    """Print the answer of a change: as JSON, or in a sentence with the status that the run has now."""
    if as_json:
        print_json(answer)
        return
    status = f"; the run is now {answer['status']}" if "status" in answer else ""
    console_for(sys.stdout).print(clean(f"{message(answer)}{status}"))
