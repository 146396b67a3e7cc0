"""The help of the whole command line is printed without Click, and reads as if Click had printed it."""

import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from penstock.cli.commands.help_page import help_lines
from penstock.cli.main import SUMMARY, app
from penstock.cli.references import LazyCommand
from penstock.cli.top_help import print_top_help, top_page
from penstock.cli.tree.commands import commands_below
from tests.waiting import SECONDS_MAX

COMMANDS = commands_below("")
ENTRIES_MAX = 12
# What help must not wait for. The first ones are what Click itself imports.
HEAVY = (
    *("click", "dataclasses", "datetime", "inspect", "pydantic", "shutil", "subprocess", "msgspec"),
    *("penstock.cli.application", "penstock.cli.declaration", "penstock.definitions", "penstock.client"),
)


def test_it_fits_on_a_screen() -> None:
    lines = [line.plain for line in help_lines(top_page(COMMANDS, SUMMARY), 80)]
    assert len(lines) < 40
    assert max(map(len, lines)) <= 80
    for name, row in COMMANDS.items():
        entries = [line for line in lines if line.startswith(f"  {name} ")]
        assert len(entries) == 1, name
        assert entries[0].endswith(row.help), f"shorten the sentence of {name}"


def test_a_panel_has_few_entries() -> None:
    sections = top_page(COMMANDS, SUMMARY).sections
    assert [section.heading for section in sections] == ["Start", "Build", "Runs and people", "Govern", "Operate"]
    assert max(len(section.rows) for section in sections) <= ENTRIES_MAX


@pytest.mark.parametrize("columns", [30, 60, 80, 100, 132])
def test_it_is_what_the_group_of_all_commands_prints(columns: int) -> None:
    printed = CliRunner().invoke(app, ["--help"], prog_name="penstock", env={"COLUMNS": str(columns)}).output
    assert [line.plain for line in help_lines(top_page(COMMANDS, SUMMARY), columns)] == printed.splitlines()


def test_it_names_every_option_of_the_whole_command_line() -> None:
    shown = "\n".join(line.plain for line in help_lines(top_page(COMMANDS, SUMMARY), 80))
    options = [*(name for item in app.params for name in item.opts), "--help"]
    assert len(options) == 5
    assert [name for name in options if name not in shown] == []


def test_hidden_commands_are_left_out() -> None:
    table = {
        "one": LazyCommand("m", "a", "The first."),
        "two": LazyCommand("m", "a", "The second.", hidden=True),
    }
    [commands] = top_page(table, "A summary.").sections
    assert [row.text for row in commands.rows] == ["The first."]


@pytest.mark.parametrize("arguments", [[], ["run"], ["run", "--help"], ["--help", "run"], ["--nonsense"]])
def test_everything_else_is_left_to_click(arguments: list[str]) -> None:
    assert not print_top_help(arguments, COMMANDS, SUMMARY, "1")


def test_completion_is_left_to_click(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_PENSTOCK_COMPLETE", "bash_complete")
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
    assert len([name for name in loaded if name.startswith("penstock")]) < 20
