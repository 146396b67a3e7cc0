"""Entries of Penstock in the files of assistants."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.mcp.install.entries import entry_checks
from penstock.operations.system.clients import InstallEnvironment

URL = "http://127.0.0.1:5151/mcp"


@pytest.fixture
def here(tmp_path: Path) -> InstallEnvironment:
    (tmp_path / "shop").mkdir()
    return InstallEnvironment(system="linux", home=tmp_path, project=tmp_path / "shop")


def put(here: InstallEnvironment, name: str, content: Any) -> None:
    path = here.home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")


def message(here: InstallEnvironment, url: str | None = URL, *, found: bool = True) -> list[tuple[str, str]]:
    checks = entry_checks(here, url, lambda program: program if found else None)
    return [(check.status, f"{check.message} {check.hint or ''}") for check in checks]


def test_without_an_entry_it_is_said_how_to_make_one(here: InstallEnvironment) -> None:
    put(here, ".cursor/mcp.json", {"mcpServers": {"weather": {"url": "https://weather.example/mcp"}}})
    [(status, text)] = message(here)
    assert status == "skip"
    assert "penstock mcp install" in text


@pytest.mark.parametrize("address", ["http://localhost:5151/mcp", "http://127.0.0.1:5151/mcp/?toolset=all"])
def test_an_entry_that_points_to_this_server(here: InstallEnvironment, address: str) -> None:
    put(here, ".codeium/windsurf/mcp_config.json", {"mcpServers": {"shop": {"serverUrl": address}}})
    [(status, text)] = message(here)
    assert status == "ok"
    assert "shop points to this server" in text


def test_an_entry_that_points_elsewhere_is_a_warning(here: InstallEnvironment) -> None:
    put(here, ".codex/config.toml", '[mcp_servers.penstock]\nurl = "https://old.example/mcp"\n')
    [(status, text)] = message(here)
    assert status == "warn"
    assert "penstock mcp install codex" in text


def test_a_program_that_is_not_found_is_a_warning(here: InstallEnvironment) -> None:
    entry = {"command": "penstock", "args": ["mcp", "--db", "shop.db"]}
    put(here, ".claude.json", {"projects": {str(here.project): {"mcpServers": {"shop": entry}}}})
    put(here, "shop/opencode.json", {"mcp": {"shop": {"type": "local", "command": ["penstock", "mcp"]}}})
    assert [status for status, _ in message(here)] == ["ok", "ok"]
    assert [status for status, _ in message(here, found=False)] == ["warn", "warn"]


def test_a_window_may_not_find_a_program_without_its_path(here: InstallEnvironment) -> None:
    entry = {"command": "penstock", "args": ["mcp"]}
    put(here, ".config/Claude/claude_desktop_config.json", {"mcpServers": {"penstock": entry}})
    [(status, text)] = message(here)
    assert (status, "whole path" in text) == ("warn", True)


def test_a_file_with_comments_is_read(here: InstallEnvironment) -> None:
    text = """// mine
    {
      /* all of
         them */
      "servers": {
        "shop": {"type": "http", "url": "http://localhost:5151/mcp", "note": "a // b, ] /* c */",}, // this one
      },
    }
    """
    put(here, ".config/Code/User/mcp.json", text)
    [(status, text_shown)] = message(here)
    assert status == "ok"
    assert "VS Code: shop points to this server" in text_shown


@pytest.mark.parametrize("content", ["{", "[]", '{"mcpServers": 5}', '{"mcpServers": {"penstock": 5}}', "", '"text"'])
def test_a_file_that_is_something_else_does_no_harm(here: InstallEnvironment, content: str) -> None:
    put(here, ".cursor/mcp.json", content)
    assert {status for status, _ in message(here)} == {"skip"}
