"""Every old spelling of a command still works, says where the command is now, and is in no help."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.cli.main import app
from penstock.cli.references import CommandGroup
from penstock.cli.tree.commands import commands_below, find_row
from penstock.cli.tree.old_spellings import OLD_SPELLINGS, find_new_spelling

WORKFLOW = """\
penstock: v1
name: greet
nodes:
  - {id: done, type: end, output: hello}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("PENSTOCK_")]:
        monkeypatch.delenv(name)
    (tmp_path / "greet.yaml").write_text(WORKFLOW, encoding="utf-8")
    return tmp_path


def every_path(path: str = "") -> Iterator[str]:
    for name, row in commands_below(path).items():
        words = f"{path} {name}".strip()
        yield words
        if isinstance(row, CommandGroup):
            yield from every_path(words)


def test_an_old_spelling_shows_the_help_of_the_new_one_and_one_line_on_stderr() -> None:
    wrong = []
    for old, new in OLD_SPELLINGS.items():
        was = CliRunner().invoke(app, [*old.split(), "--help"], prog_name="penstock")
        now = CliRunner().invoke(app, [*new.split(), "--help"], prog_name="penstock")
        hint = f"`penstock {old}` is now `penstock {new}`. The old name goes away in 0.2.\n"
        if now.exit_code != 0 or now.stderr or (was.exit_code, was.stdout, was.stderr) != (0, now.stdout, hint):
            wrong.append(f"{old}: {was.exit_code} {was.stderr}")
    assert not wrong, "\n".join(wrong)


def test_what_an_old_spelling_leads_to_is_there_and_itself_current() -> None:
    for old, new in OLD_SPELLINGS.items():
        assert find_row(new) is not None, new
        assert find_new_spelling(new.split()) is None, new
        assert old not in set(every_path()), old


@pytest.mark.parametrize("words", [["graph", "greet.yaml"], ["graph", "--format", "mermaid", "greet.yaml"]])
def test_the_old_drawing_of_a_file_still_works(words: list[str]) -> None:
    drawn = CliRunner().invoke(app, words)
    assert drawn.exit_code == 0
    assert drawn.stdout == CliRunner().invoke(app, ["workflow", "draw", "greet.yaml"]).stdout
    hint = "`penstock graph FILE` is now `penstock workflow draw FILE`. The old name goes away in 0.2.\n"
    assert drawn.stderr == hint


@pytest.mark.parametrize(
    "words", [["graph", "list"], ["graph", "--help"], ["graph"], ["graph", "refund"], ["graph", "load", "g", "x.json"]]
)
def test_words_about_data_graphs_are_no_drawing(words: list[str]) -> None:
    assert find_new_spelling(words) is None


def test_the_json_of_a_command_stays_alone_on_stdout() -> None:
    was = CliRunner().invoke(app, ["simulate", "greet.yaml", "--json"])
    now = CliRunner().invoke(app, ["workflow", "simulate", "greet.yaml", "--json"])
    assert was.stdout == now.stdout
    assert len(was.stderr.splitlines()) == 1


def test_underscores_are_taken_for_dashes_in_old_spellings_too() -> None:
    found = find_new_spelling(["graphs", "branches_create", "shop"])
    assert found is not None
    assert found.words == ["graph", "branch", "create", "shop"]
