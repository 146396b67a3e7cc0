"""Where assistants keep their servers on each system, and how an entry is written there."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Literal

import pytest

from penstock.cli.mcp.install.command import install_environment
from penstock.operations.system.clients import CLIENTS, HttpConnection, InstallEnvironment, PipeConnection, Scope

HOME, PROJECT, DATA = Path("/people/ada"), Path("/places/shop"), Path("/people/ada/AppData/Roaming")
System = Literal["linux", "macos", "windows"]
SUPPORT = "/people/ada/Library/Application Support"
PIPE = PipeConnection(command="penstock", arguments=("mcp",))
HTTP = HttpConnection(url="https://penstock.example.com/mcp", key_variable="SHOP_KEY")


def here(system: System) -> InstallEnvironment:
    return InstallEnvironment(system=system, home=HOME, project=PROJECT, application_data=DATA)


@pytest.mark.parametrize(
    ("client", "scope", "places"),
    [
        (
            "claude-desktop",
            "user",
            {
                "linux": "/people/ada/.config/Claude/claude_desktop_config.json",
                "macos": f"{SUPPORT}/Claude/claude_desktop_config.json",
                "windows": f"{DATA}/Claude/claude_desktop_config.json",
            },
        ),
        (
            "vscode",
            "user",
            {
                "linux": "/people/ada/.config/Code/User/mcp.json",
                "macos": f"{SUPPORT}/Code/User/mcp.json",
                "windows": f"{DATA}/Code/User/mcp.json",
            },
        ),
        (
            "zed",
            "user",
            {
                "linux": "/people/ada/.config/zed/settings.json",
                "macos": "/people/ada/.config/zed/settings.json",
                "windows": f"{DATA}/Zed/settings.json",
            },
        ),
        ("claude-code", "user", "/people/ada/.claude.json"),
        ("claude-code", "project", "/places/shop/.mcp.json"),
        ("cursor", "user", "/people/ada/.cursor/mcp.json"),
        ("cursor", "project", "/places/shop/.cursor/mcp.json"),
        ("vscode", "project", "/places/shop/.vscode/mcp.json"),
        ("windsurf", "user", "/people/ada/.codeium/windsurf/mcp_config.json"),
        ("codex", "user", "/people/ada/.codex/config.toml"),
        ("codex", "project", "/places/shop/.codex/config.toml"),
        ("gemini-cli", "user", "/people/ada/.gemini/settings.json"),
        ("gemini-cli", "project", "/places/shop/.gemini/settings.json"),
        ("opencode", "user", "/people/ada/.config/opencode/opencode.json"),
        ("opencode", "project", "/places/shop/opencode.json"),
        ("copilot-cli", "user", "/people/ada/.copilot/mcp-config.json"),
    ],
)
def test_a_client_keeps_its_servers_here(client: str, scope: Scope, places: dict[System, str] | str) -> None:
    systems: tuple[System, ...] = ("linux", "macos", "windows")
    for system in systems:
        wanted = places if isinstance(places, str) else places[system]
        assert PurePosixPath(CLIENTS[client].places[scope](here(system))) == PurePosixPath(wanted)


def test_a_variable_moves_the_folder_of_a_client() -> None:
    variables = {"CLAUDE_CONFIG_DIR": "/conf/claude", "CODEX_HOME": "/conf/codex", "COPILOT_HOME": " "}
    moved = install_environment(variables, HOME, PROJECT, "linux")
    assert CLIENTS["claude-code"].places["user"](moved) == Path("/conf/claude/.claude.json")
    assert CLIENTS["codex"].places["user"](moved) == Path("/conf/codex/config.toml")
    assert CLIENTS["copilot-cli"].places["user"](moved) == HOME / ".copilot" / "mcp-config.json"


@pytest.mark.parametrize(
    ("client", "entry"),
    [
        (
            "claude-code",
            {"type": "http", "url": HTTP.url, "headers": {"Authorization": "Bearer ${SHOP_KEY}"}},
        ),
        ("cursor", {"url": HTTP.url, "headers": {"Authorization": "Bearer ${env:SHOP_KEY}"}}),
        (
            "vscode",
            {"type": "http", "url": HTTP.url, "headers": {"Authorization": "Bearer ${input:shop-key}"}},
        ),
        ("windsurf", {"serverUrl": HTTP.url, "headers": {"Authorization": "Bearer ${env:SHOP_KEY}"}}),
        ("codex", {"url": HTTP.url, "bearer_token_env_var": "SHOP_KEY"}),
        ("gemini-cli", {"httpUrl": HTTP.url, "headers": {"Authorization": "Bearer ${SHOP_KEY}"}}),
        (
            "opencode",
            {
                "type": "remote",
                "url": HTTP.url,
                "oauth": False,
                "headers": {"Authorization": "Bearer {env:SHOP_KEY}"},
                "enabled": True,
            },
        ),
    ],
)
def test_the_entry_of_a_server_says_where_the_key_is(client: str, entry: dict[str, object]) -> None:
    assert CLIENTS[client].entry(HTTP, "shop") == entry


def test_the_entry_of_a_program() -> None:
    plain = {"command": "penstock", "args": ["mcp"]}
    for client in ("claude-desktop", "cursor", "windsurf", "codex", "gemini-cli", "zed"):
        assert CLIENTS[client].entry(PIPE, "shop") == plain
    for client in ("claude-code", "vscode"):
        assert CLIENTS[client].entry(PIPE, "shop") == {"type": "stdio", **plain}
    assert CLIENTS["copilot-cli"].entry(PIPE, "shop") == {"type": "local", **plain, "tools": ["*"]}
    local = {"type": "local", "command": ["penstock", "mcp"], "enabled": True}
    assert CLIENTS["opencode"].entry(PIPE, "shop") == local
