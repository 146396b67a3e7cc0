"""Entries for assistants, on homes made for the test."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.cli.main import app
from penstock.operations.system.clients import CLIENTS

RUNNER = CliRunner()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("place", [("--db", "shop.db"), ("--server", "https://penstock.example.com")])
@pytest.mark.parametrize("client", CLIENTS)
def test_an_entry_is_written_once_and_what_was_there_stays(client: str, place: tuple[str, str]) -> None:
    known = CLIENTS[client]
    command = ["mcp", "install", client, *place, "--write", "--json"]
    path = Path(json.loads(RUNNER.invoke(app, command).stdout)["file"])
    path.write_text('model = "a"\n' if known.form == "toml" else '{"model": "a"}', encoding="utf-8")
    told = json.loads(RUNNER.invoke(app, command).stdout)
    text = path.read_text(encoding="utf-8")
    content = tomllib.loads(text) if known.form == "toml" else json.loads(text)
    assert content["model"] == "a"
    assert "penstock" in content[known.members[0]]
    assert Path(told["backup"]).exists()
    assert json.loads(RUNNER.invoke(app, command).stdout)["written"] is False


def test_an_unknown_client_is_answered_with_one_that_exists() -> None:
    result = RUNNER.invoke(app, ["mcp", "install", "claude-dektop"])
    assert result.exit_code == 2
    assert "claude-desktop" in result.output


def arguments(*command: str) -> list[str]:
    told = json.loads(RUNNER.invoke(app, ["mcp", "install", *command, "--json"]).stdout)
    servers = next(iter(json.loads(told["snippet"]).values()))
    found: list[str] = servers["penstock"]["args"]
    return found


def test_the_settings_of_a_folder_are_meant_wherever_the_assistant_starts(home: Path) -> None:
    (home / "penstock.yaml").write_text("", encoding="utf-8")
    assert arguments("claude-desktop") == ["mcp", "--config", str(home / "penstock.yaml")]
    assert arguments("vscode") == ["mcp", "--config", "${workspaceFolder}/penstock.yaml"]
    assert arguments("claude-code") == ["mcp"]
    assert arguments("claude-code", "--config", "other.yaml") == ["mcp", "--config", "other.yaml"]


def test_files_that_are_named_one_by_one_have_whole_paths(home: Path) -> None:
    (home / "penstock.yaml").write_text("", encoding="utf-8")
    named = ["mcp", "--db", str(home / "shop.db"), "--workflows", str(home / "flows")]
    assert arguments("claude-desktop", "--db", "shop.db", "--workflows", "flows") == named
    assert arguments("vscode", "--db", "shop.db") == ["mcp", "--db", "${workspaceFolder}/shop.db"]


def test_without_settings_an_assistant_works_on_the_usual_file(home: Path) -> None:
    assert arguments("claude-desktop") == ["mcp", "--db", str(home / "penstock.db")]
    assert arguments("claude-code") == ["mcp"]


def test_an_entry_for_one_graph_names_it_or_its_endpoint(home: Path) -> None:
    (home / "penstock.yaml").write_text("", encoding="utf-8")
    named = ["mcp", "--config", str(home / "penstock.yaml"), "--graph", "crm"]
    assert arguments("claude-desktop", "--graph", "crm") == named
    command = ["mcp", "install", "claude-code", "--server", "https://penstock.example.com", "--graph", "crm", "--json"]
    told = json.loads(RUNNER.invoke(app, command).stdout)
    assert '"https://penstock.example.com/graphs/crm/mcp"' in told["snippet"]
    both = RUNNER.invoke(app, ["mcp", "install", "claude-code", "--graph", "crm", "--management"])
    assert both.exit_code == 2
    assert "--graph goes without" in both.output
