"""How commands end: what they print for programs, errors as messages, exit codes.

    0    success
    1    a negative result: findings, a difference, a run that failed, a chain that is broken; or a bug
    2    the command could not be carried out: wrong usage, an unreadable file, no such run or database
    3    a run still waits
    4    operations: there is no such thing
    5    operations: the request cannot be accepted as it is
    6    operations: the thing has moved on
    7    operations: a limit was reached
    8    operations: the server cannot be reached, or cannot answer now
    9    operations: not allowed
    130  left with Ctrl-C

`EXIT_CODES` is the same list for the documentation. Codes of refusals come from `operations.catalogue.errors`.

Above it: the commands. Below it: `hints`, `operations.catalogue.errors`.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated

from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject, JsonValue, object_or_empty
from penstock.base.lazy_import import lazy_import
from penstock.base.text import clean
from penstock.cli.declaration import Exit, Option, echo
from penstock.cli.terminal.hints import command_hint
from penstock.cli.terminal.values import UsageError
from penstock.operations.catalogue.errors import mapping_of

if TYPE_CHECKING:
    from penstock.cli.terminal import console
else:
    console = lazy_import("penstock.cli.terminal.console")

__all__ = [
    "EXIT_CODES",
    "INTERRUPTED",
    "STILL_WAITING",
    "CallHeld",
    "JsonOption",
    "command_text",
    "exit_with",
    "print_json",
    "report_held",
    "report_problem",
]

JsonOption = Annotated[bool, Option("--json", help="Print JSON instead of text.")]

STILL_WAITING = 3
INTERRUPTED = 130
EXIT_CODES: Mapping[int, str] = {
    0: "Success.",
    1: "A negative result: findings, a breaking difference, a run that failed or was cancelled, a broken audit trail; "
    "or a bug in the server.",
    2: "The command could not be carried out: wrong usage, a file that cannot be read, no such run or database.",
    STILL_WAITING: "A run has not ended yet; or the call is held, and somebody has to approve it.",
    4: "Operations: there is no such thing.",
    5: "Operations: the request cannot be accepted as it is.",
    6: "Operations: the thing has moved on (a conflict).",
    7: "Operations: a limit was reached.",
    8: "Operations: the server cannot be reached, cannot answer now, or is not configured for that.",
    9: "Operations: not allowed; the key is missing, not valid, or lacks a scope.",
    INTERRUPTED: "Left with Ctrl-C.",
}

_MISTAKES_MAX = 20


def command_text(*parts: str) -> str:
    """A command as a person can paste it."""
    return clean(shlex.join(("penstock", *parts)))


def print_json(value: JsonValue) -> None:
    """Print one JSON value for programs."""
    echo(json.dumps(value, indent=2, ensure_ascii=False))


def report_problem(error: PenstockError | UsageError, *, as_json: bool) -> None:
    """Say why a command could not be carried out."""
    if isinstance(error, UsageError):
        _problem("USAGE", str(error), None, {}, as_json=as_json)
    else:
        _problem(error.code, error.message, command_hint(error), error.details, as_json=as_json)


def _problem(code: str, message: str, hint: str | None, details: JsonObject, *, as_json: bool) -> None:
    if as_json:
        error: JsonObject = {"code": code, "message": message, "hint": hint}
        print_json({"ok": False, "error": {**error, "details": details} if details else error})
        return
    lines = [clean(message if code == "USAGE" else f"{code}: {message}")]
    mistakes = _mistakes(details)
    # The message already has the first mistake, so a list is printed only for several, or if it says how to correct it.
    lines += [f"  - {clean(mistake)}" for mistake in mistakes] if len(mistakes) > 1 or details.get("findings") else []
    if hint and not (mistakes and ("`errors`" in hint or "`findings`" in hint)):
        lines.append(f"  hint: {clean(hint)}")
    console.print_problem("\n".join(lines))


def _mistakes(details: JsonObject) -> list[str]:
    """Every mistake that a refusal lists, with its place, and how to correct it."""
    listed = details.get("errors") or details.get("findings")
    found = [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []
    return [_mistake(item) for item in found[:_MISTAKES_MAX]]


def _mistake(item: JsonObject) -> str:
    line, pointer = item.get("line"), item.get("pointer") or item.get("path")
    place = pointer or "/" if line is None else f"{line}:{item.get('column')}"
    fix = item.get("hint")
    return f"{place}: {item.get('message')}" + (f"; {fix}" if fix else "")


class CallHeld(Exception):
    """Raised by clients of commands when a call was not made: it is held until somebody approves it."""

    def __init__(self, operation: str, answer: JsonObject) -> None:
        super().__init__(operation)
        self.operation = operation
        self.answer = answer

    @classmethod
    def found_in(cls, operation: str, answer: JsonValue) -> CallHeld | None:
        """Return the held call that an answer reports, if it reports one."""
        held = answer.get("held") if isinstance(answer, dict) else None
        return cls(operation, answer) if isinstance(answer, dict) and isinstance(held, dict) else None


def report_held(call: CallHeld, *, as_json: bool) -> None:
    """Say that a call is held, as which draft, and what to do next."""
    if as_json:
        print_json(call.answer)
        return
    held = object_or_empty(call.answer.get("held"))
    draft, until = str(held.get("draft_id")), held.get("expires_at")
    lines = [
        f"{call.operation} is held, and nothing was done yet: draft {draft} waits for an approval until {until}",
        f"  hint: look at it with `{command_text('approval', 'get', draft)}`; somebody who may approves it with"
        f" `{command_text('approval', 'approve', draft)}`",
    ]
    console.print_problem("\n".join(map(clean, lines)))


def exit_with(work: Callable[[], int], *, as_json: bool) -> None:
    """Do the work of a command on operations, and exit with its code or that of its refusal."""
    try:
        code = work()
    except UsageError as error:
        report_problem(error, as_json=as_json)
        code = 2
    except PenstockError as error:
        report_problem(error, as_json=as_json)
        code = mapping_of(error).exit_code
    except CallHeld as held:
        report_held(held, as_json=as_json)
        code = STILL_WAITING
    except KeyboardInterrupt:
        code = INTERRUPTED
    if code:
        raise Exit(code)
