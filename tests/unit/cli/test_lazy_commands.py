"""Commands are imported when they are called, and look as if they had been there all along."""

import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import pytest
import typer
from typer.core import TyperArgument, TyperGroup, TyperOption
from typer.testing import CliRunner

from penstock.cli.lazy_commands import (
    LazyCommand,
    WithTrailingArguments,
    build_command,
    command_tree,
    lazy_group,
    trailing_arguments,
)
from penstock.cli.main import COMMANDS, app

GROUP = command_tree(app)
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
    command = GROUP.commands[name]
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


@pytest.mark.parametrize(
    ("words", "completions"),
    [("wor", ["worker", "workflow"]), ("workflow li", ["list"]), ("workflow list --ser", ["--server"])],
)
def test_a_shell_completes_commands_and_options(words: str, completions: list[str]) -> None:
    typed = f"penstock {words}"
    environment = {
        "_PENSTOCK_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(words.split())),
    }
    result = CliRunner().invoke(app, [], prog_name="penstock", env=environment)
    assert result.output.split() == completions


def test_completing_the_name_of_a_command_imports_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_PENSTOCK_COMPLETE", "complete_bash"), ("COMP_WORDS", "penstock "), ("COMP_CWORD", "1")):
        monkeypatch.setenv(name, value)
    loaded = loaded_by()
    assert [name for name in SERVER if name in loaded] == []
    assert "penstock.cli.run.command" not in loaded


def test_underscores_are_taken_for_dashes() -> None:
    result = CliRunner().invoke(app, ["schedule", "run_now", "--help"])
    assert result.exit_code == 0
    assert "SCHEDULE_ID" in result.output


def test_the_commands_below_mcp_say_what_the_list_says_of_them() -> None:
    group = GROUP.commands["mcp"]
    assert set(group.commands) == {"install", "doctor", "tools", "call"}
    for name, command in group.commands.items():
        assert " ".join((command.help or "").split("\n\n")[0].split()) == group.commands.references[name].help


def test_words_after_two_dashes_are_kept_apart() -> None:
    heard: list[tuple[object, ...]] = []

    def take(ctx: typer.Context, name: str, more: Annotated[list[str] | None, typer.Argument()] = None) -> None:
        heard.append((name, more, trailing_arguments(ctx)))

    command = build_command("take", WithTrailingArguments(take))
    for words in (["a", "b", "--", "npx", "--loud", "--", "c"], ["a"]):
        command.main(words, standalone_mode=False)
    assert heard == [("a", ["b"], ("npx", "--loud", "--", "c")), ("a", None, ())]
    assert "[-- COMMAND ...]" in command.get_usage(typer.Context(command))


# --- what is built on the inside of Typer -----------------------------------------------------------


def leaves(command: Any) -> Iterator[Any]:
    """Every command of the command line."""
    for inner in getattr(command, "commands", {}).values():
        yield from leaves(inner) if hasattr(inner, "commands") else [inner]


def test_an_option_that_is_not_given_has_the_value_that_typer_gives_it() -> None:
    compared = 0
    for command in leaves(GROUP):
        ctx = typer.Context(command)
        for parameter in command.get_params(ctx):
            if parameter.required or parameter.callback is not None:
                continue
            untouched = type(parameter).process_value(parameter, ctx, None)
            assert parameter.process_value(ctx, None) == untouched, (command.name, parameter.name)
            compared += 1
    assert compared > 1_000


def test_a_callback_is_called_for_an_option_that_is_not_given() -> None:
    heard: list[object] = []

    def checked(value: str | None) -> str:
        heard.append(value)
        return "checked"

    def take(name: Annotated[str | None, typer.Option(callback=checked)] = None) -> None:
        heard.append(name)

    build_command("take", take).main([], standalone_mode=False)
    assert heard == [None, "checked"]


@pytest.mark.parametrize("kind", [TyperArgument, TyperOption])
def test_parameters_are_converted_by_the_method_that_is_replaced(kind: type[Any]) -> None:
    assert list(inspect.signature(kind.process_value).parameters) == ["self", "ctx", "value"]


def test_help_of_a_lazy_group_is_that_of_a_group_with_the_same_commands() -> None:
    def one() -> None:
        """The first."""

    def two() -> None:
        """The second."""

    plain = typer.Typer(add_completion=False)
    plain.command("one")(one)
    plain.command("two")(two)
    table = {"one": LazyCommand("nowhere", "", "The first."), "two": LazyCommand("nowhere", "", "The second.")}
    lazy = typer.Typer(add_completion=False, cls=lazy_group(lambda: table))
    lazy.callback()(lambda: None)
    plain.callback()(lambda: None)
    shown = [CliRunner().invoke(group, ["--help"], prog_name="group").output for group in (plain, lazy)]
    assert shown[0] == shown[1]
    assert "The second." in shown[1]


def test_a_group_asks_the_methods_that_a_lazy_group_has_of_its_own() -> None:
    for method, parameters in (
        ("list_commands", ["ctx"]),
        ("get_command", ["ctx", "cmd_name"]),
        ("get_params", ["ctx"]),
    ):
        assert list(inspect.signature(getattr(TyperGroup, method)).parameters) == ["self", *parameters]
