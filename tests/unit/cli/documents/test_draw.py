"""`penstock workflow draw` draws what it can, says what it could not, and answers with exit codes."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from penstock.cli.documents.draw import draw_command
from penstock.cli.lazy_commands import build_command

GOOD = """
penstock: v1
name: small
version: 1.0.0
nodes:
  - {id: work, type: step, handler: "shop:work"}
  - {id: done, type: end}
"""
BROKEN = GOOD.replace("id: done, type: end", "id: done, type: end, next: nowhere").replace("handler", "handle")

app = build_command("draw", draw_command)


def graph(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(app, list(arguments), input=text)


@pytest.fixture
def good(tmp_path: Path) -> str:
    path = tmp_path / "small.yaml"
    path.write_text(GOOD)
    return str(path)


def test_a_workflow_is_drawn_as_mermaid_unless_told_otherwise(good: str) -> None:
    result = graph(good)
    assert result.exit_code == 0
    assert result.stdout.startswith("flowchart TD\n")
    assert result.stderr == ""


def test_a_workflow_is_drawn_as_svg(good: str) -> None:
    result = graph(good, "--format", "svg")
    assert result.exit_code == 0
    assert ElementTree.fromstring(result.stdout).tag.endswith("svg")


def test_the_name_of_the_output_decides_the_format(good: str, tmp_path: Path) -> None:
    picture, text = tmp_path / "small.svg", tmp_path / "small.mmd"
    assert graph(good, "--output", str(picture)).exit_code == 0
    assert graph(good, "--output", str(text)).exit_code == 0
    assert picture.read_text().startswith("<svg ")
    assert text.read_text().startswith("flowchart TD")


def test_nothing_but_the_drawing_goes_to_standard_output(good: str, tmp_path: Path) -> None:
    result = graph(good, "--output", str(tmp_path / "small.svg"))
    assert result.stdout == ""
    assert "small.svg: written" in result.stderr


def test_standard_input_is_read_for_a_dash() -> None:
    assert "work" in graph("-", text=GOOD).stdout


def test_the_drawing_comes_as_json_with_what_it_shows(good: str) -> None:
    result = graph(good, "--json", "--format", "svg")
    told = json.loads(result.stdout)
    assert (told["name"], told["version"], told["format"], told["errors"]) == ("small", "1.0.0", "svg", 0)
    assert told["drawing"].startswith("<svg ")
    assert len(told["hash"]) == 64


def test_json_names_the_file_when_the_drawing_went_there(good: str, tmp_path: Path) -> None:
    told = json.loads(graph(good, "--json", "--output", str(tmp_path / "a.svg")).stdout)
    assert told["output"].endswith("a.svg")
    assert "drawing" not in told


def test_a_document_with_mistakes_is_drawn_with_a_hint(tmp_path: Path) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text(BROKEN)
    result = graph(str(path))
    assert result.exit_code == 0
    assert "work" in result.stdout
    assert "the drawing shows what could be understood" in result.stderr
    assert f"run `penstock validate {path}`" in result.stderr


@pytest.mark.parametrize("text", ["nodes: [", '{"nodes": ', "just words", "[1, 2]", "{}"])
def test_what_is_no_workflow_cannot_be_drawn(text: str) -> None:
    result = graph("-", text=text)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "error" in result.stderr


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    result = graph(str(tmp_path / "none.yaml"))
    assert result.exit_code == 2
    assert "none.yaml" in result.stderr


def test_an_output_that_cannot_be_written_is_named(good: str, tmp_path: Path) -> None:
    result = graph(good, "--output", str(tmp_path / "no" / "folder.svg"))
    assert result.exit_code == 2
    assert "folder.svg" in result.stderr
