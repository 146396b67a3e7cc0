"""`penstock workflow diff` tells what changed, gives two verdicts, and answers with exit codes."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from penstock.cli.documents.diff import diff_command
from penstock.cli.lazy_commands import build_command

OLD = """
penstock: v1
name: small
version: 1.0.0
input: {type: object, properties: {amount: {type: number}}}
nodes:
  - {id: work, type: step, handler: "shop:work", with: {amount: 1}}
  - {id: done, type: end}
"""
COMPATIBLE = OLD.replace("1.0.0", "1.1.0").replace("amount: 1}", "amount: 2}")
BREAKING = COMPATIBLE.replace("input: {type: object", "input: {type: object, required: [amount]")
UNSAFE = OLD.replace("  - {id: done", "  - {id: more, type: step, handler: x}\n  - {id: done")
BROKEN = OLD.replace("handler", "handle")

app = build_command("diff", diff_command)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {"old": OLD, "compatible": COMPATIBLE, "breaking": BREAKING, "unsafe": UNSAFE}.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    (tmp_path / "broken.yaml").write_text(BROKEN)
    (tmp_path / "unreadable.yaml").write_text("nodes: [")
    return tmp_path


def diff(folder: Path, before: str, after: str, *options: str) -> Result:
    return CliRunner().invoke(app, [str(folder / f"{before}.yaml"), str(folder / f"{after}.yaml"), *options])


def test_a_version_is_the_same_as_itself(folder: Path) -> None:
    result = diff(folder, "old", "old")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-3:] == [
        "The two versions mean the same.",
        "Callers:        nothing breaks",
        "Runs in flight: safe to move to the new version",
    ]


def test_a_compatible_change_is_told_and_passes(folder: Path) -> None:
    result = diff(folder, "old", "compatible")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "small 1.0.0 → small 1.1.0",
        "",
        "Document",
        "  ~ The version is now `1.1.0` (before: `1.0.0`).",
        "",
        "Nodes",
        "  ~ `with` of `work` changed.",
        "",
        "Callers:        nothing breaks",
        "Runs in flight: safe to move to the new version",
    ]


def test_a_breaking_change_fails_and_says_why(folder: Path) -> None:
    result = diff(folder, "old", "breaking")
    assert result.exit_code == 1
    assert "  ~ `amount` of the input is now required.  breaking  perhaps unsafe in flight" in result.stdout
    assert "      callers may be refused with input that was valid before" in result.stdout
    assert "Callers:        breaking (1 change)" in result.stdout


def test_a_change_that_runs_in_flight_would_notice_fails(folder: Path) -> None:
    result = diff(folder, "old", "unsafe")
    assert result.exit_code == 1
    assert "  + The node `more` (of the type `step`) is new.  unsafe in flight" in result.stdout
    assert "Callers:        nothing breaks" in result.stdout
    assert "Runs in flight: not safe to move (2 changes)" in result.stdout


def test_the_exit_code_can_be_kept_at_zero(folder: Path) -> None:
    assert diff(folder, "old", "breaking", "--exit-zero").exit_code == 0


def test_the_diff_comes_as_json(folder: Path) -> None:
    result = diff(folder, "old", "breaking", "--json")
    assert result.exit_code == 1
    told = json.loads(result.stdout)
    assert told["breaking_for_callers"] is True
    assert told["same"] is False
    assert (told["before"]["version"], told["after"]["version"]) == ("1.0.0", "1.1.0")
    assert {change["subject"] for change in told["changes"]} == {"document", "input", "node"}


def test_a_document_with_mistakes_is_compared_with_a_hint(folder: Path) -> None:
    result = diff(folder, "broken", "broken")
    assert result.exit_code == 0
    assert "broken.yaml has 2 errors; only what could be understood was compared" in result.stderr
    assert "run `penstock validate" in result.stderr


@pytest.mark.parametrize(("before", "after"), [("old", "unreadable"), ("unreadable", "old"), ("old", "missing")])
def test_a_file_that_cannot_be_read_ends_with_2(folder: Path, before: str, after: str) -> None:
    result = diff(folder, before, after)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "error" in result.stderr
