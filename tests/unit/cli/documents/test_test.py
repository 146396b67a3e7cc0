"""`penstock test` as a person and a script use it."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.cli.main import app

FLOW = """\
penstock: v1
name: lend
nodes:
  - {id: shelf, type: step, handler: "x:find"}
  - {id: done, type: end, output: {shelf: "${ .shelf.number }"}}
tests:
  - name: it is found
    mock: {shelf: {number: 7}}
    expect: {status: completed, output: {shelf: 7}, path: [shelf, done]}
  - name: it is left out
    skip: true
    expect: {status: completed}
"""
PARENT = """\
penstock: v1
name: parent
nodes:
  - {id: kid, type: subworkflow, workflow: lend}
  - {id: done, type: end}
"""
WRONG = FLOW.replace("output: {shelf: 7}, path", "output: {shelf: 8, row: 1}, path")
runner = CliRunner()


def write(folder: Path, text: str, name: str = "flow.yaml") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def test_cases_that_hold_and_cases_that_are_left_out(tmp_path: Path) -> None:
    result = runner.invoke(app, ["test", write(tmp_path, FLOW)])
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == f"{tmp_path / 'flow.yaml'}  lend, 2 cases"
    assert lines[1].startswith("  ✓ it is found  ")
    assert lines[1].endswith(" ms")
    assert lines[2:] == ["  - it is left out  skipped", "1 passed, 1 skipped"]


def test_a_case_that_does_not_hold_shows_the_places_that_differ(tmp_path: Path) -> None:
    result = runner.invoke(app, ["test", write(tmp_path, WRONG), "--trace"])
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[1].startswith("  ✗ it is found  ")
    assert lines[2:7] == [
        "      output.shelf",
        "        expected  8",
        "             got  7",
        "      output.row (missing)",
        "        expected  1",
    ]
    assert any(line.strip().startswith("✓ shelf") for line in lines[7:])
    assert lines[-1] == "1 failed, 1 skipped"


def test_json_has_everything_a_program_needs(tmp_path: Path) -> None:
    result = runner.invoke(app, ["test", write(tmp_path, WRONG), "--json"])
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    assert (report["ok"], report["passed"], report["failed"], report["skipped"]) == (False, 0, 1, 1)
    (file,) = report["files"]
    assert (file["workflow"], file["problem"]) == ("lend", None)
    failed, skipped = file["cases"]
    assert set(failed) == {"name", "outcome", "elapsed_ms", "differences", "unused"}
    assert failed["differences"] == [
        {"place": "output.shelf", "expected": 8, "actual": 7},
        {"place": "output.row", "expected": 1, "actual": None, "note": "missing"},
    ]
    assert (skipped["outcome"], skipped["differences"]) == ("skipped", [])


def test_cases_are_chosen_by_a_part_of_their_name(tmp_path: Path) -> None:
    path = write(tmp_path, FLOW)
    assert "1 passed" in runner.invoke(app, ["test", path, "-k", "found"]).stdout
    misspelt = runner.invoke(app, ["test", path, "-k", "foudn"])
    assert misspelt.exit_code == 2
    assert "no case has 'foudn' in its name" in misspelt.stderr


def test_scripts_that_nothing_asked_for_fail_only_when_strict(tmp_path: Path) -> None:
    text = FLOW.replace("mock: {shelf: {number: 7}}", "mock: {shelf: {number: 7}}\n    signals: [{name: never}]")
    path = write(tmp_path, text)
    relaxed = runner.invoke(app, ["test", path])
    assert relaxed.exit_code == 0
    assert "      never used: the 1 of 1 signals" in relaxed.stdout
    assert runner.invoke(app, ["test", path, "--strict"]).exit_code == 1


def test_a_file_that_cannot_be_used_ends_with_2_and_the_others_are_run(tmp_path: Path) -> None:
    good = write(tmp_path, FLOW)
    bad = write(tmp_path, FLOW.replace("type: end", "type: ned"), "bad.yaml")
    result = runner.invoke(app, ["test", bad, good, str(tmp_path / "missing.yaml")])
    assert result.exit_code == 2
    assert "bad.yaml: it has mistakes" in result.stderr
    assert "missing.yaml: No such file" in result.stderr
    assert "1 passed, 1 skipped" in result.stdout


def test_child_workflows_and_cases_beside_a_file_are_found_in_its_folder(tmp_path: Path) -> None:
    write(tmp_path, FLOW, "child.yaml")
    path = write(tmp_path, PARENT, "parent.yaml")
    cases = "tests: [{name: the child runs, mock: {shelf: {number: 1}}, expect: {status: completed}}]\n"
    write(tmp_path, cases, "parent.tests.yaml")
    result = runner.invoke(app, ["test", path, "--strict"])
    assert result.exit_code == 0, result.output
    assert "the child runs" in result.stdout


@pytest.mark.parametrize("text", ["tests: 1\n", "tests: [\n"])
def test_a_broken_file_of_cases_is_named(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, FLOW)
    write(tmp_path, text, "flow.tests.yaml")
    result = runner.invoke(app, ["test", path])
    assert result.exit_code == 2
    assert "flow.tests.yaml" in result.stderr


def test_without_files_the_cases_of_the_project_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "flows").mkdir()
    write(tmp_path / "flows", FLOW)
    write(tmp_path, "workflows: {paths: [flows/*.yaml]}\n", "penstock.yaml")
    monkeypatch.chdir(tmp_path)
    result = runner.invoke(app, ["test"])
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "1 passed, 1 skipped"), result.output


def test_without_files_outside_a_project_the_command_asks_for_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = runner.invoke(app, ["test"])
    assert (result.exit_code, result.stderr) == (
        2,
        "error: no files given, and no penstock.yaml here: name the files\n",
    )
