"""Every command has an example that its own options accept."""

import shlex
from typing import Any

import click
from click.testing import CliRunner

from penstock.cli.lazy_commands import load_command
from penstock.cli.main import app
from penstock.cli.operations.examples import example_of
from penstock.cli.tree.commands import every_command


def problem_with(path: str, command: Any, example: str) -> str | None:
    """Why the words of an example are no call of its command."""
    words = shlex.split(example)
    wanted = ["penstock", *path.split()]
    if words[: len(wanted)] != wanted:
        return f"{example} is of another command"
    try:
        # Parsed with the values converted, but without the checks that read settings and files.
        with click.Context(command, info_name=path) as context:
            command.parse_args(context, words[len(wanted) :])
    except Exception as error:
        return f"{example}: {getattr(error, 'message', error) or type(error).__name__}"
    return None


def test_every_command_has_an_example_that_it_accepts() -> None:
    seen, wrong = 0, []
    for path, row in every_command():
        seen += 1
        example = example_of(path, row)
        problem = problem_with(path, load_command(path, row), example)
        wrong += [] if problem is None else [problem]
    assert seen > 200
    assert not wrong, "\n".join(wrong)


def test_an_example_that_does_not_fit_is_found() -> None:
    rows = dict(every_command())
    command = load_command("workflow get", rows["workflow get"])
    assert problem_with("workflow get", command, "penstock workflow get") is not None
    assert problem_with("workflow get", command, "penstock workflow get refund --nonsense 1") is not None
    assert problem_with("workflow get", command, "penstock workflow list") is not None
    assert problem_with("workflow get", command, "penstock workflow get refund") is None


def test_help_ends_with_the_example() -> None:
    shown = CliRunner().invoke(app, ["approval", "approve", "--help"], prog_name="penstock", env={"COLUMNS": "100"})
    assert "\nExample:\n  penstock approval approve draft-1" in shown.output
