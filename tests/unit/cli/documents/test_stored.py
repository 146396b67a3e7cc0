"""Commands about a stored workflow or a file: the first argument decides, and options of the other side are refused."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from penstock.cli.documents.stored import is_file_argument
from penstock.cli.main import app

WORKFLOW = """\
penstock: v1
name: greet
version: VERSION
input: {type: object, properties: {name: {type: string}}}
nodes:
  - {id: done, type: end, output: "${ .input.name }"}
tests:
  - {name: says the name, input: {name: Ada}, expect: {status: completed, output: Ada}}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("PENSTOCK_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "greet.yaml").write_text(WORKFLOW.replace("VERSION", "1.0.0"), encoding="utf-8")
    (tmp_path / "next.yaml").write_text(WORKFLOW.replace("VERSION", "1.1.0"), encoding="utf-8")
    assert workflow("create", "--file", "greet.yaml").exit_code == 0
    return tmp_path


def workflow(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["workflow", *arguments])


def workflow_json(*arguments: str) -> Any:
    return json.loads(workflow(*arguments, "--json").stdout)


@pytest.mark.parametrize(
    ("word", "expected"),
    [("-", True), ("x.yaml", True), ("x.yml", True), ("x.json", True), ("greet.yaml", True), ("greet", False)],
)
def test_an_argument_is_a_file_by_its_suffix_or_because_it_exists(word: str, expected: bool) -> None:
    assert is_file_argument(word) is expected


def test_a_file_that_exists_without_a_suffix_is_a_file(folder: Path) -> None:
    (folder / "flow").write_text(WORKFLOW, encoding="utf-8")
    assert is_file_argument("flow")


def test_a_file_is_drawn_in_mermaid_and_a_stored_workflow_as_svg() -> None:
    assert workflow("draw", "greet.yaml").stdout.startswith("flowchart TD")
    assert workflow_json("draw", "greet")["svg"].startswith("<svg")


def test_a_file_and_a_stored_workflow_run_their_cases() -> None:
    assert workflow_json("test", "greet.yaml")["passed"] == 1
    assert workflow_json("test", "greet")["passed"] is True
    assert workflow("test", "greet", "greet.yaml", "--case", "x").exit_code == 2


def test_a_file_and_a_stored_workflow_are_simulated_with_the_same_input() -> None:
    given = ("--input", '{"name": "Ada"}')
    assert workflow_json("simulate", "greet.yaml", *given)["result"] == "Ada"
    assert workflow_json("simulate", "greet", *given)["result"] == "Ada"


def test_two_files_or_a_stored_workflow_and_a_file_are_compared() -> None:
    files = workflow_json("diff", "greet.yaml", "next.yaml")
    stored = workflow_json("diff", "greet", "next.yaml")
    assert files["breaking_for_callers"] is stored["breaking_for_callers"] is False
    alone = workflow("diff", "greet.yaml")
    assert (alone.exit_code, "name the new version" in alone.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("draw", "greet.yaml", "--hash", "x"), "--hash goes with a stored workflow, and greet.yaml is a file"),
        (("draw", "greet", "--output", "x.svg"), "--output goes with a file, and greet is a stored workflow"),
        (("simulate", "greet", "--mock", "a=1"), "--mock goes with a file, and greet is a stored workflow"),
        (("test", "greet", "other"), "name one workflow: greet and other are not files"),
    ],
)
def test_options_of_the_other_side_are_refused(arguments: tuple[str, ...], said: str) -> None:
    refused = workflow(*arguments)
    assert refused.exit_code == 2
    assert said in " ".join(refused.stderr.split())


def test_a_server_given_for_a_file_is_refused() -> None:
    refused = workflow("draw", "greet.yaml", "--server", "http://127.0.0.1:9")
    assert (refused.exit_code, "--server goes with a stored workflow" in refused.stderr) == (2, True)
