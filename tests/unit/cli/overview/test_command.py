"""`penstock` alone says where you are and what to do next."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from penstock.cli.main import app
from penstock.cli.overview.command import describe, next_steps
from penstock.cli.overview.position import Counts, Position
from tests.waiting import SECONDS_MAX

LINES_MAX = 15
# What a look must not wait for.
HEAVY = ("click", "rich", "httpx2", "uvicorn", "penstock.engine", "penstock.app.penstock")
ASKS = """\
penstock: v1
name: asks
nodes:
  - {id: ask, type: interrupt, message: Sure?, answer: {type: object, properties: {ok: {type: boolean}}}}
  - {id: done, type: end, output: done}
"""
FAILS = """\
penstock: v1
name: fails
nodes:
  - {id: choose, type: switch, cases: [{when: "false", next: done}], default: stop}
  - {id: stop, type: fail, code: NOPE, message: no}
  - {id: done, type: end, output: done}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("PENSTOCK_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    return here


def penstock(*arguments: str) -> str:
    result = CliRunner().invoke(app, [*arguments], prog_name="penstock")
    assert result.exit_code in (0, 1, 3), result.output
    return result.stdout


def look() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(penstock("--json"))
    return found


def test_without_a_project_it_says_how_to_start(folder: Path) -> None:
    said = penstock()
    assert "none in this folder" in said
    assert "penstock init shop" in said
    assert list(folder.iterdir()) == []


def test_in_a_project_it_names_the_project_and_its_database() -> None:
    penstock("init")
    found = look()
    assert (found["project"], found["place"], found["exists"]) == ("penstock.yaml", "penstock.db", False)
    assert found["next"][0]["command"] == "penstock dev"


def test_beside_a_server_it_does_not_propose_another_one() -> None:
    here = Position(
        version="1", folder="/x", project="penstock.yaml", project_above=None, kind="file", place="penstock.db",
        exists=True, listening="http://127.0.0.1:5151",
    )  # fmt: skip
    commands = [command for command, _ in next_steps(here)]
    assert commands == ["penstock runs top", "penstock test", "penstock mcp install CLIENT"]


def test_below_a_project_it_leads_to_the_project(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    penstock("init")
    monkeypatch.chdir(folder / "workflows")
    assert look()["project_above"] == str(folder)
    assert f"cd {folder}" in penstock()


def test_what_waits_and_what_failed_is_counted(folder: Path) -> None:
    for name, text in (("asks", ASKS), ("fails", FAILS)):
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
        penstock("run", f"{name}.yaml", "--json")
    before = {path.name for path in folder.iterdir()}
    found = look()
    assert found["counts"] == {
        "approvals": 0, "questions": 1, "failed": 1, "unknown_outcomes": 0, "live": 1, "more": False
    }  # fmt: skip
    assert found["workers"] == 0
    commands = [step["command"] for step in found["next"]]
    assert commands[:3] == [
        "penstock approval list",
        "penstock runs list --status failed --updated-since 24h",
        "penstock server worker",
    ]
    assert {path.name for path in folder.iterdir()} == before
    said = penstock()
    assert "waiting   1 question" in said
    assert "failed    1 run in the last 24h" in said


def test_every_command_that_is_proposed_exists(folder: Path) -> None:
    counts = Counts(approvals=1, questions=1, failed=1, unknown_outcomes=1, live=4)
    here: dict[str, Any] = {"version": "1", "folder": "/x", "project_above": None, "place": "penstock.db"}
    for position in (
        Position(**here, kind="file", project=None, exists=True, workers=0, counts=counts),
        Position(**here, kind="file", project="penstock.yaml", exists=True, format_version=3, current_format=25),
        Position(**here, kind="server", project=None),
    ):
        for command, _ in next_steps(position):
            words = [word for word in command.split()[1:] if word.islower() and not word.startswith("-")]
            result = CliRunner().invoke(app, [*words[:2], "--help"])
            assert result.exit_code == 0, command
        assert len(describe(position)) <= LINES_MAX


def test_a_database_of_an_older_format_is_named(folder: Path) -> None:
    here: dict[str, Any] = {"version": "1", "folder": "/x", "project": None, "project_above": None, "kind": "file"}
    position = Position(**here, place="penstock.db", exists=True, format_version=15, current_format=25)
    said = "\n".join(describe(position))
    assert "format 15; this release has 25" in said
    assert "penstock server migrate --check" in said


def test_mistaken_settings_and_a_foreign_file_are_named(folder: Path) -> None:
    (folder / "penstock.db").write_text("no database\n" * 50, encoding="utf-8")
    assert "penstock server check --db penstock.db" in penstock()
    (folder / "penstock.yaml").write_text("server: {prot: 1}\n", encoding="utf-8")
    said = penstock()
    assert "the settings have 1 mistake" in said
    assert "penstock config validate" in said


def test_a_server_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_SERVER", "http://127.0.0.1:9")
    found = look()
    assert (found["kind"], found["exists"]) == ("server", False)
    assert found["problem"].startswith("CONNECTION_FAILED")
    assert len(penstock().splitlines()) <= LINES_MAX


def test_it_imports_nothing_that_takes_long(folder: Path) -> None:
    (folder / "asks.yaml").write_text(ASKS, encoding="utf-8")
    penstock("run", "asks.yaml", "--json")
    program = (
        "import json, sys\nsys.argv = ['penstock', '--json']\nfrom penstock.cli.main import main\nmain()\n"
        "print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    command = [sys.executable, "-c", program]
    finished = subprocess.run(command, capture_output=True, text=True, check=True, timeout=SECONDS_MAX)
    assert json.loads(finished.stdout)["counts"]["questions"] == 1
    loaded = json.loads(finished.stderr)
    assert [name for name in HEAVY if name in loaded] == []
