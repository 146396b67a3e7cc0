"""`penstock workflow|key|… ACTION`: a command for every operation, made from the client's table of operations.

The same command talks to a server or works on a file. Options come from the operation's arguments, help from its
description. Nothing of the server is imported unless the command works on a file.

Above it: `tree.commands`, by name. Below it: `options`, `targets.clients`, `terminal.answers`.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

from penstock.base.json import JsonObject, JsonValue
from penstock.cli.declaration import Option, echo
from penstock.cli.operations.options import parameter_signature, read_arguments
from penstock.cli.targets.clients import OperationClient, open_client
from penstock.cli.targets.selection import (
    IdempotencyOption,
    ProfileOption,
    ServerOption,
    TargetFileOption,
    choose_target,
)
from penstock.cli.terminal.answers import print_answer, print_event
from penstock.cli.terminal.exits import STILL_WAITING, JsonOption, exit_with, print_json
from penstock.cli.wording import words_of
from penstock.client.operations import Operation, find_operation

__all__ = ["call_and_show", "call_operation", "every_page", "operation_command", "show_call"]

# Members of answers that decide the exit code, and the value that means success.
_VERDICTS: Final[Mapping[str, tuple[str, bool]]] = {
    "workflow.validate": ("valid", True),
    "workflow.diff": ("breaking_for_callers", False),
    "workflow.test": ("passed", True),
    "audit.verify": ("intact", True),
    "system.health": ("ready", True),
}
_RUNS: Final = "execution"
_FAILED: Final = frozenset({"failed", "cancelled"})

AllOption = Annotated[bool, Option("--all", help="Every page, not only one.")]


def operation_command(name: str) -> Callable[..., None]:
    """The function of an operation's command, with a parameter for each of its arguments."""
    operation = find_operation(name)

    def command(**values: Any) -> None:
        call_operation(operation, values)

    parameters = [*parameter_signature(operation), *_common(operation)]
    # Required ones first, as in any signature.
    ordered = sorted(parameters, key=lambda parameter: parameter.default is not inspect.Parameter.empty)
    command.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]  # what `inspect` looks at first
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in ordered}
    text = f"{operation.title}.\n\n{operation.description}" if operation.description else f"{operation.title}."
    command.__doc__ = words_of(text)
    return command


def _common(operation: Operation) -> Iterator[inspect.Parameter]:
    more: dict[str, tuple[Any, Any]] = {}
    if operation.paged:
        more["every_page"] = (AllOption, False)
    if not operation.read_only:
        more["idempotency_key"] = (IdempotencyOption, None)
    more["target_server"] = (ServerOption, None)
    more["target_profile"] = (ProfileOption, None)
    more["target_file"] = (TargetFileOption, None)
    more["as_json"] = (JsonOption, False)
    for name, (annotation, default) in more.items():
        yield inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def call_operation(operation: Operation, values: Mapping[str, Any]) -> None:
    """Call an operation with the values of the command line, print the answer, and exit."""
    as_json = bool(values.get("as_json"))

    def work() -> int:
        arguments = read_arguments(operation, values)
        file: Path | None = values.get("target_file")
        target = choose_target(values.get("target_server"), values.get("target_profile"), file)
        # A file that does not exist has no runs, so it is not created.
        with open_client(target, operation, create=operation.resource != _RUNS) as surface:
            if values.get("every_page"):
                return show_call(operation, arguments, every_page(surface, operation, arguments), as_json=as_json)
            key = values.get("idempotency_key")
            return call_and_show(surface, operation, arguments, idempotency_key=key, as_json=as_json)

    exit_with(work, as_json=as_json)


def call_and_show(
    surface: OperationClient,
    operation: Operation,
    arguments: JsonObject,
    *,
    idempotency_key: str | None = None,
    as_json: bool,
) -> int:
    """Call an operation, print the answer, and return the exit code."""
    if operation.streams:
        return _show_stream(surface, operation, arguments, as_json=as_json)
    answer = surface.call(operation.name, arguments, idempotency_key=idempotency_key)
    return show_call(operation, arguments, answer, as_json=as_json)


def show_call(operation: Operation, arguments: JsonObject, answer: JsonValue, *, as_json: bool) -> int:
    """Print the answer of a call, and return the exit code."""
    if as_json:
        print_json(answer)
    else:
        print_answer(answer)
    return _verdict(operation, arguments, answer)


def every_page(surface: OperationClient, operation: Operation, arguments: JsonObject) -> JsonValue:
    """The answer of a list with the items of all pages."""
    items: list[JsonValue] = []
    first: JsonObject = {}
    while True:
        page = surface.call(operation.name, arguments)
        if not isinstance(page, dict) or not isinstance(page.get("items"), list):
            return page
        found = page["items"]
        items.extend(found if isinstance(found, list) else [])
        first = first or page  # what is beside the items may be on the first page alone
        if page.get("next_cursor") is None:
            return {**first, "items": items, "next_cursor": None}
        arguments = {**arguments, "cursor": page["next_cursor"]}


def _show_stream(surface: OperationClient, operation: Operation, arguments: JsonObject, *, as_json: bool) -> int:
    code = STILL_WAITING
    for event in surface.events(operation.name, arguments):
        if as_json:
            line = {"event": event.event, "id": event.id, "data": event.data}
            echo(json.dumps(line, ensure_ascii=False))
        else:
            print_event(event)
        if event.event == "complete":
            code = 1 if event.data.get("status") in _FAILED else 0
    return code


def _verdict(operation: Operation, arguments: JsonObject, answer: JsonValue) -> int:
    """The exit code of an answer, which may be negative, or not final yet."""
    if not isinstance(answer, dict):
        return 0
    if operation.name in _VERDICTS:
        member, well = _VERDICTS[operation.name]
        return 0 if answer.get(member) is well else 1
    if operation.name == "workflow.execute" and (arguments.get("sync") or arguments.get("wait_seconds")):
        status = answer.get("status")
        return 0 if status == "completed" else 1 if status in _FAILED else STILL_WAITING
    return 0
