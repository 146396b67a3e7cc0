"""Commands are imported when they are called, and look as if they had been there all along."""

import json
import subprocess
import sys
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from penstock.cli.lazy_commands import WithTrailingArguments, build_command, trailing_arguments
from penstock.cli.main import COMMANDS, app

GROUP = typer.main.get_command(app)
# What a command about a server must not wait for.
SERVER = ("jq", "jsonschema_rs", "sqlite3", "starlette", "uvicorn", "penstock.engine", "penstock.runtime")


def loaded_by(*arguments: str) -> set[str]:
    """The modules that a command has imported when it has done its work."""
    program = (
        "import atexit, json, sys\n"
        "atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))\n"
        f"sys.argv = ['penstock', *{list(arguments)!r}]\n"
        "from penstock.cli.main import main\n"
        "main()\n"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    return set(json.loads(finished.stderr.splitlines()[-1]))


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_each_says_of_itself(name: str) -> None:
    command = GROUP.commands[name]  # type: ignore[attr-defined]  # the top level is a group
    assert " ".join((command.help or "").split("\n\n")[0].split()) == COMMANDS[name].help


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("workflow", "--help"), ("nonsense",)])
def test_help_imports_no_command_and_nothing_of_the_product(arguments: tuple[str, ...]) -> None:
    loaded = loaded_by(*arguments)
    assert [name for name in SERVER if name in loaded] == []
    assert "penstock.cli.run.command" not in loaded


def test_a_call_to_a_server_imports_nothing_of_a_server() -> None:
    loaded = loaded_by("workflow", "list", "--server", "http://127.0.0.1:9")
    assert [name for name in SERVER if name in loaded] == []
    assert "penstock.client.sync.connection" in loaded
    assert "penstock.client.generated.sync.workflows" not in loaded


def test_serving_does_not_import_the_commands_of_operations() -> None:
    loaded = loaded_by("serve", "--help")
    assert [name for name in loaded if name.startswith(("penstock.client", "penstock.cli.operations."))] == [
        "penstock.cli.operations.resources"
    ]


def test_a_command_that_does_not_exist_is_answered_with_one_that_does() -> None:
    result = CliRunner().invoke(app, ["workflw", "list"])
    assert result.exit_code == 2
    assert "workflow" in result.output


def test_underscores_are_taken_for_dashes() -> None:
    result = CliRunner().invoke(app, ["schedule", "run_now", "--help"])
    assert result.exit_code == 0
    assert "SCHEDULE_ID" in result.output


def test_the_commands_below_mcp_say_what_the_list_says_of_them() -> None:
    group = GROUP.commands["mcp"]  # type: ignore[attr-defined]  # the top level is a group
    assert set(group.commands) == {"install", "doctor", "tools", "call"}
    for name, command in group.commands.items():
        assert " ".join((command.help or "").split("\n\n")[0].split()) == group.commands.listed(name).help


def test_words_after_two_dashes_are_kept_apart() -> None:
    heard: list[tuple[object, ...]] = []

    def take(ctx: typer.Context, name: str, more: Annotated[list[str] | None, typer.Argument()] = None) -> None:
        heard.append((name, more, trailing_arguments(ctx)))

    command = build_command("take", WithTrailingArguments(take))
    for words in (["a", "b", "--", "npx", "--loud", "--", "c"], ["a"]):
        command.main(words, standalone_mode=False)
    assert heard == [("a", ["b"], ("npx", "--loud", "--", "c")), ("a", None, ())]
    assert "[-- COMMAND ...]" in command.get_usage(typer.Context(command))
