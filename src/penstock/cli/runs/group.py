"""The group `penstock runs`: a command for every operation on runs, some with more comfort than the operation.

REST and MCP call a run an execution: `penstock execution` is this group under that name, and a command is also found
under the name of its operation (`penstock runs status` is `penstock runs show`).

Above it: `main`. Below it: the commands, each imported when it is called.
"""

from __future__ import annotations

from typing import Final

import typer

from penstock.cli.lazy_commands import LazyCommand, new_group
from penstock.cli.operations.options import words_of
from penstock.client.operations import find_operation

__all__ = ["runs_group"]

_CHANGES: Final = "penstock.cli.runs.control"
_LOOKS: Final = "penstock.cli.runs.inspection"

# The sentence is the first one of the command's own help; a test compares them.
_COMMANDS: Final[dict[str, LazyCommand]] = {
    "list": LazyCommand(_LOOKS, "list_command", "List runs, newest first."),
    "show": LazyCommand(
        _LOOKS,
        "show_command",
        "Show a run: its status, what it waits for, pending activities, children, error and result.",
    ),
    "history": LazyCommand(_LOOKS, "history_command", "Show the history of a run."),
    "watch": LazyCommand(
        "penstock.cli.runs.watch",
        "watch_command",
        "Watch a run until it ends, whoever performs it; its questions are asked right here.",
    ),
    "answer": LazyCommand("penstock.cli.runs.answer", "answer_command", "Answer a question that a run asks."),
    "signal": LazyCommand(_CHANGES, "signal_command", "Send a signal to a run; it is kept until the run waits for it."),
    "lease": LazyCommand(
        _CHANGES,
        "lease_command",
        "Take an activity of a host-mediated run for a while, so that nobody else does it.",
    ),
    "submit": LazyCommand(
        _CHANGES,
        "submit_command",
        "Report what came of an activity that was done elsewhere, or whose outcome was unknown.",
    ),
    "pause": LazyCommand(_CHANGES, "pause_command", "Pause a run: it makes no new moves until it is resumed."),
    "resume": LazyCommand(_CHANGES, "resume_command", "Let a paused run go on."),
    "cancel": LazyCommand(_CHANGES, "cancel_command", "Cancel a run; what must be undone is undone first."),
    "retry": LazyCommand(_CHANGES, "retry_command", "Try again what failed."),
    "fork": LazyCommand(
        _CHANGES,
        "fork_command",
        "Start a new run that begins where another one was after a record; `runs history` shows the records.",
    ),
    "query": LazyCommand(
        _LOOKS, "query_command", "Evaluate jq where a run stands: input, state and what its nodes gave."
    ),
}
# Made from the operations.
_PLAIN: Final = ("delete", "stream", "update", "wait")
_OTHER_NAMES: Final = {"status": "show", "lease-activity": "lease", "submit-activity": "submit"}


def runs_group(words: str) -> typer.Typer:
    """The group of commands about runs; `words` is its help."""
    return new_group(_commands, words)


def _commands() -> dict[str, LazyCommand]:
    found = dict(_COMMANDS)
    for action in _PLAIN:
        operation = find_operation(f"execution.{action}")
        found[action] = LazyCommand(
            "penstock.cli.operations.commands",
            "operation_command",
            words_of(operation, f"{operation.title}."),
            None,
            operation.name,
        )
    for other, name in _OTHER_NAMES.items():
        place = _COMMANDS[name]
        found[other] = LazyCommand(place.module, place.attribute, place.help, alias=True)
    return found
