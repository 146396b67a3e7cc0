"""Groups of commands that are imported when they are called."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Annotated

import click
import pytest
from click.testing import CliRunner

from penstock.cli.commands.command import FunctionCommand, WithTrailingArguments, trailing_arguments
from penstock.cli.declaration import Argument, Context, Option, echo
from penstock.cli.lazy_commands import LazyGroup, build_command, load_command
from penstock.cli.main import app
from penstock.cli.references import CommandGroup, CommandRow, LazyCommand
from penstock.cli.tree.commands import commands_below, every_command

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


TABLE = {
    "say-hello": LazyCommand(__name__, "hello", "Say hello."),
    "other": LazyCommand("nowhere.at.all", "", "Do another thing.", "Others"),
    "quiet": LazyCommand("nowhere.at.all", "", "Not listed.", hidden=True),
}


def hello(*, name: Annotated[str, Option("--name", help="Who.")] = "Ada") -> None:
    """Say hello.

    To somebody.
    """
    echo(f"hello {name}")


def group(function: Callable[..., None] | None = None) -> LazyGroup:
    return LazyGroup("greet", "Greet people.", function=function, rows=lambda _: TABLE)


def run(command: click.Command, *words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(command, words, prog_name="greet", env={"COLUMNS": "80"})
    return result.exit_code, result.stdout, result.stderr


def test_help_lists_the_sentences_of_the_table_and_imports_nothing() -> None:
    code, shown, _ = run(group(), "--help")
    assert (code, "nowhere.at.all" in sys.modules) == (0, False)
    assert shown.splitlines() == [
        "Usage: greet [OPTIONS] COMMAND [ARGS]...",
        "",
        "Greet people.",
        "",
        "Options:",
        "  --help     Show this message and exit.",
        "",
        "Commands:",
        "  say-hello  Say hello.",
        "",
        "Others:",
        "  other      Do another thing.",
    ]


def test_a_group_without_a_command_prints_its_help_as_a_mistake() -> None:
    code, shown, told = run(group())
    assert (code, shown) == (2, "")
    assert told.startswith("Usage: greet")


@pytest.mark.parametrize("name", ["say-hello", "say_hello"])
def test_a_command_is_imported_and_called_by_its_name_with_dashes_or_underscores(name: str) -> None:
    assert run(group(), name, "--name", "Bob") == (0, "hello Bob\n", "")


def test_a_group_with_a_function_does_something_by_itself() -> None:
    def alone(ctx: Context, *, loud: Annotated[bool, Option("--loud", help="Shout.")] = False) -> None:
        """Greet everybody."""
        if ctx.invoked_subcommand is None:
            echo("HELLO" if loud else "hello")

    assert run(group(function=alone), "--loud") == (0, "HELLO\n", "")
    assert run(group(function=alone), "say-hello") == (0, "hello Ada\n", "")


def test_completion_lists_names_and_options_without_importing_commands() -> None:
    command = group()
    ctx = click.Context(command)
    assert [item.value for item in command.shell_complete(ctx, "")] == ["say-hello", "other"]
    assert [item.value for item in command.shell_complete(ctx, "--")] == ["--help"]


def test_words_after_two_dashes_are_kept_apart() -> None:
    heard: list[tuple[object, ...]] = []

    def take(
        ctx: Context, name: Annotated[str, Argument()], more: Annotated[list[str] | None, Argument()] = None
    ) -> None:
        """Take words."""
        heard.append((name, more, trailing_arguments(ctx)))

    command = build_command("take", WithTrailingArguments(take))
    for words in (["a", "b", "--", "npx", "--loud", "--", "c"], ["a"]):
        command.main(words, standalone_mode=False)
    assert heard == [("a", ["b"], ("npx", "--loud", "--", "c")), ("a", None, ())]
    assert "Usage: greet [OPTIONS] NAME [MORE]... [-- COMMAND ...]" in run(command, "--help")[1]


def test_ctrl_c_ends_with_130_and_nothing_printed_as_a_mistake() -> None:
    def wait() -> None:
        """Wait."""
        raise KeyboardInterrupt

    code, shown, told = run(FunctionCommand("wait", wait))
    assert (code, shown.strip(), told.strip()) == (130, "", "")


def test_an_error_of_the_program_is_not_hidden() -> None:
    def fail() -> None:
        """Fail."""
        raise LookupError("a bug")

    result = CliRunner().invoke(FunctionCommand("fail", fail), [])
    assert isinstance(result.exception, LookupError)


# --- the commands of Penstock -----------------------------------------------------------------------------------------


def test_the_list_of_commands_says_what_each_says_of_itself() -> None:
    groups = ((name, row) for name, row in commands_below("").items() if isinstance(row, CommandGroup))
    rows: list[tuple[str, CommandRow]] = [*every_command(), *groups]
    for path, row in rows:
        said = load_command(path, row).help or ""
        assert " ".join(said.split("\n\n")[0].split()) == row.help, path


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
    of_operations = [name for name in loaded if name.startswith(("penstock.client", "penstock.cli.operations."))]
    assert of_operations == ["penstock.cli.operations.examples"]  # the help ends with one


def test_a_command_that_does_not_exist_is_answered_with_one_that_does() -> None:
    result = CliRunner().invoke(app, ["workflw", "list"])
    assert result.exit_code == 2
    assert "workflow" in result.stderr


@pytest.mark.parametrize(
    ("words", "completions"),
    [
        ("wor", ["workflow"]),
        ("workflow li", ["list"]),
        ("workflow list --ser", ["--server"]),
        ("graph branch cr", ["create"]),
        ("server back", ["backup"]),
        ("server backup --over", ["--overwrite"]),
        ("config profile a", ["add"]),
        ("backu", []),
        ("graphs branches-create --sour", ["--source"]),
    ],
)
def test_a_shell_completes_commands_and_options(words: str, completions: list[str]) -> None:
    typed = f"penstock {words}"
    environment = {
        "_PENSTOCK_COMPLETE": "bash_complete",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(words.split())),
    }
    result = CliRunner().invoke(app, [], prog_name="penstock", env=environment)
    assert [line.partition(",")[2] for line in result.output.splitlines() if line] == completions


def test_completing_the_name_of_a_command_imports_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_PENSTOCK_COMPLETE", "bash_complete"), ("COMP_WORDS", "penstock "), ("COMP_CWORD", "1")):
        monkeypatch.setenv(name, value)
    loaded = loaded_by()
    assert [name for name in SERVER if name in loaded] == []
    assert "penstock.cli.run.command" not in loaded


def test_underscores_are_taken_for_dashes() -> None:
    result = CliRunner().invoke(app, ["schedule", "run_now", "--help"])
    assert result.exit_code == 0
    assert "SCHEDULE_ID" in result.output


def test_a_group_that_is_a_command_too_has_its_commands() -> None:
    mcp = app.get_command(None, "mcp")
    assert isinstance(mcp, LazyGroup)
    assert set(mcp.list_commands(click.Context(mcp))) == {"install", "doctor", "tools", "call"}


def test_help_of_every_command_fits_into_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    wide, seen = [], 0
    for path, row in every_command():
        command = load_command(path, row)
        page, _, example = command.get_help(click.Context(command, info_name=f"penstock {path}")).partition("Example:")
        wide += [f"{path}: {line}" for line in page.splitlines() if len(line) > 80]
        seen += bool(example)
    assert seen > 200
    assert not wide, "\n".join(wide)
