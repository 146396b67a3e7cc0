"""`penstock validate` and `penstock workflow json-schema` as a person and a script use them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock import __version__
from penstock.base.limits import DOCUMENT_BYTES_MAX
from penstock.cli.main import app

GOOD = """\
penstock: v1
name: greet
version: 1.2.0
nodes:
  - {id: hello, type: step, handler: shop.greet:hello}
  - {id: done, type: end, output: {said: "${ .hello.text }"}}
"""
BAD = GOOD.replace("handler: shop.greet:hello", "handler: shop.greet:hello, next: dnoe")
WARNED = GOOD.replace("name: greet", "name: greet\nsecrets: [UNUSED]")

runner = CliRunner()


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.yaml"
    path.write_text(GOOD)
    return path


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    path = tmp_path / "bad.yaml"
    path.write_text(BAD)
    return path


def test_a_good_file_is_named_with_its_workflow(good: Path) -> None:
    result = runner.invoke(app, ["validate", str(good)])
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [f"{good}: ok greet 1.2.0", "1 file checked: 0 errors"]


def test_a_mistake_is_shown_like_a_good_compiler_shows_it(bad: Path) -> None:
    result = runner.invoke(app, ["validate", str(bad)])
    assert result.exit_code == 1
    line = "  - {id: hello, type: step, handler: shop.greet:hello, next: dnoe}"
    column = line.index("next") + 1
    assert result.stdout.splitlines() == [
        f"{bad}:5:{column}: error UNKNOWN_TARGET unknown node `dnoe`",
        f"  5 | {line}",
        "    | " + " " * (column - 1) + "^",
        "  hint: did you mean `done`?",
        "1 file checked: 1 error",
    ]
    assert "\x1b" not in result.stdout


def test_json_has_everything_a_program_needs(good: Path, bad: Path) -> None:
    result = runner.invoke(app, ["validate", "--json", str(good), str(bad)])
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    assert report["ok"] is False
    first, second = report["files"]
    assert (first["file"], first["ok"], first["name"], first["version"]) == (str(good), True, "greet", "1.2.0")
    assert len(first["hash"]) == 64
    assert second["ok"] is False
    assert second["hash"] is None
    finding = second["findings"][0]
    assert finding["code"] == "UNKNOWN_TARGET"
    assert (finding["path"], finding["line"], finding["severity"]) == ("/nodes/0/next", 5, "error")
    assert finding["file"] == str(bad)


def test_warnings_fail_only_when_strict(tmp_path: Path) -> None:
    path = tmp_path / "warned.yaml"
    path.write_text(WARNED)
    relaxed = runner.invoke(app, ["validate", str(path)])
    assert relaxed.exit_code == 0
    assert "warning UNUSED_SECRET" in relaxed.stdout
    assert relaxed.stdout.endswith("1 file checked: 0 errors, 1 warning\n")
    assert runner.invoke(app, ["validate", "--strict", str(path)]).exit_code == 1
    strict = json.loads(runner.invoke(app, ["validate", "--strict", "--json", str(path)]).stdout)
    assert (strict["ok"], strict["files"][0]["ok"]) == (False, False)


def test_standard_input_is_a_dash() -> None:
    result = runner.invoke(app, ["validate", "-"], input=BAD)
    assert result.exit_code == 1
    assert result.stdout.startswith("<stdin>:5:")


def test_a_directory_is_searched_for_workflows(tmp_path: Path, good: Path, bad: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "flow.json").write_text(
        '{"penstock": "v1", "name": "x", "nodes": [{"id": "a", "type": "end"}]}'
    )
    (tmp_path / "compose.yaml").write_text("services: {}\n")
    (tmp_path / "package.json").write_text('{"name": "x"}')
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "flow.yaml").write_text(GOOD)
    report = json.loads(runner.invoke(app, ["validate", "--json", str(tmp_path)]).stdout)
    assert [entry["file"] for entry in report["files"]] == [str(bad), str(good), str(tmp_path / "sub" / "flow.json")]


def test_a_file_is_checked_once(tmp_path: Path, good: Path) -> None:
    result = runner.invoke(app, ["validate", str(good), str(tmp_path)])
    assert result.stdout.endswith("1 file checked: 0 errors\n")


def test_what_cannot_be_read_is_said_on_standard_error(tmp_path: Path, good: Path) -> None:
    missing = tmp_path / "missing.yaml"
    result = runner.invoke(app, ["validate", str(missing), str(good)])
    assert result.exit_code == 2
    assert f"{missing}: No such file or directory" in result.stderr
    assert f"{good}: ok" in result.stdout
    report = json.loads(runner.invoke(app, ["validate", "--json", str(missing)]).stdout)
    assert report["files"][0]["findings"][0]["code"] == "UNREADABLE_FILE"


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b" " * (DOCUMENT_BYTES_MAX + 1)])
def test_a_file_that_is_no_text_or_too_large_cannot_be_read(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "odd.yaml"
    path.write_bytes(content)
    assert runner.invoke(app, ["validate", str(path)]).exit_code == 2


def test_a_directory_without_workflows_is_not_a_success(tmp_path: Path) -> None:
    result = runner.invoke(app, ["validate", str(tmp_path)])
    assert result.exit_code == 2
    assert "no workflow found here" in result.stderr


def test_a_syntax_error_is_a_finding(tmp_path: Path) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text("penstock: v1\nnodes: [\n")
    result = runner.invoke(app, ["validate", str(path)])
    assert result.exit_code == 1
    assert result.stdout.startswith(f"{path}:")


def test_wrong_usage_has_its_own_exit_code() -> None:
    assert runner.invoke(app, ["validate"]).exit_code == 2
    assert runner.invoke(app, ["validate", "--nonsense", "x"]).exit_code == 2


def test_the_version_is_printed() -> None:
    result = runner.invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"penstock {__version__}\n")


@pytest.mark.parametrize("document_format", ["native", "published", "all"])
def test_the_schema_of_each_format_is_printed(document_format: str) -> None:
    result = runner.invoke(app, ["workflow", "json-schema", "--format", document_format])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_the_installed_command_works_as_a_process(tmp_path: Path, bad: Path) -> None:
    program = "from penstock.cli.main import main; main()"
    command = [sys.executable, "-c", program, "validate", bad.name]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert result.returncode == 1
    assert result.stdout.startswith("bad.yaml:5:")
    assert result.stderr == ""
