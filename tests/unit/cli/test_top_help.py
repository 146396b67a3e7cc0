"""The help of the whole command line is printed without Typer, and reads as if Typer had printed it."""

import json
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from penstock.cli.main import COMMANDS, SUMMARY, app
from penstock.cli.references import LazyCommand
from penstock.cli.top_help import print_top_help, top_help
from tests.waiting import SECONDS_MAX

# What help must not wait for. The first ones are what Typer itself imports.
HEAVY = ("click", "inspect", "pydantic", "rich", "shutil", "subprocess", "typer", "penstock.cli.application", "msgspec")


@pytest.fixture(autouse=True)
def _plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TERMINAL_WIDTH", "FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("columns", [60, 80, 100, 132])
def test_it_is_what_typer_prints(columns: int) -> None:
    printed = CliRunner().invoke(app, ["--help"], prog_name="penstock", env={"COLUMNS": str(columns)}).output
    assert f"{top_help(COMMANDS, SUMMARY, columns)}\n" == printed


def test_colors_change_nothing_but_the_look() -> None:
    colored = top_help(COMMANDS, SUMMARY, 80, is_colored=True)
    assert "\x1b[1;36mworkflow" in colored
    plain = [line.rstrip() for line in top_help(COMMANDS, SUMMARY, 80).splitlines()]
    for code in ("0", "1", "2", "33", "1;36"):
        colored = colored.replace(f"\x1b[{code}m", "")
    assert [line.rstrip() for line in colored.splitlines()] == plain


def test_hidden_commands_and_other_names_are_left_out() -> None:
    table = {
        "one": LazyCommand("m", "a", "The first."),
        "two": LazyCommand("m", "a", "The second.", hidden=True),
        "three": LazyCommand("m", "a", "The third.", alias=True),
    }
    shown = top_help(table, "A summary.", 80)
    assert "The first." in shown
    assert "The second." not in shown
    assert "The third." not in shown


@pytest.mark.parametrize("arguments", [[], ["run"], ["run", "--help"], ["--help", "run"], ["--nonsense"]])
def test_everything_else_is_left_to_typer(arguments: list[str]) -> None:
    assert not print_top_help(arguments, COMMANDS, SUMMARY, "1")


@pytest.mark.parametrize(
    ("variable", "value"), [("_PENSTOCK_COMPLETE", "complete_bash"), ("TERMINAL_WIDTH", "50"), ("COLUMNS", "40")]
)
def test_completion_and_unusual_terminals_are_left_to_typer(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    assert not print_top_help(["--help"], COMMANDS, SUMMARY, "1")


@pytest.mark.parametrize(("option", "wanted"), [("--help", "Usage: penstock"), ("--version", "penstock ")])
def test_it_imports_nothing_that_takes_long(option: str, wanted: str) -> None:
    program = (
        f"import sys\nfrom penstock.cli.main import main\nsys.argv = ['penstock', {option!r}]\nmain()\n"
        "modules = sorted(sys.modules)\nimport json\nprint(json.dumps(modules), file=sys.stderr)"
    )
    environment = {**os.environ, "COLUMNS": "80"}
    command = [sys.executable, "-c", program]
    finished = subprocess.run(command, capture_output=True, text=True, check=True, timeout=SECONDS_MAX, env=environment)
    assert wanted in finished.stdout
    loaded = json.loads(finished.stderr)
    assert [name for name in HEAVY if name in loaded] == []
    # Python itself has about 60, and site packages add some; Typer alone would add 90.
    assert len([name for name in loaded if name.startswith("penstock")]) < 20
