"""The assistants that Penstock can be connected to: where each keeps its servers, and how an entry is written there.

No entry holds a key. Each says where the key is, in the way its client offers: an environment variable, or a question
that the client asks. A client that offers neither starts the bridge with a profile, which says where the key is.

Above it: `connecting`, `penstock mcp install`. Below it: nothing; it reads and writes no file.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from penstock.base.json import JsonObject

__all__ = [
    "CLIENTS",
    "Addition",
    "Connection",
    "HttpConnection",
    "InstallEnvironment",
    "McpClient",
    "PipeConnection",
    "Scope",
    "System",
    "snippet",
    "toml_key",
]

Scope: TypeAlias = Literal["user", "project"]
System: TypeAlias = Literal["linux", "macos", "windows"]
_BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallEnvironment:
    """The machine on which a client keeps its files."""

    system: System
    home: Path
    project: Path
    application_data: Path | None = None
    """`%APPDATA%` of Windows."""
    configuration: Path | None = None
    """`$XDG_CONFIG_HOME`."""
    moved: Mapping[str, Path] = field(default_factory=dict)
    """Folders of single clients that a variable of the environment moves elsewhere, by that variable."""

    @property
    def applications(self) -> Path:
        """Where graphical applications keep their settings."""
        match self.system:
            case "macos":
                return self.home / "Library" / "Application Support"
            case "windows":
                return self.application_data or self.home / "AppData" / "Roaming"
            case "linux":
                return self.settings

    @property
    def settings(self) -> Path:
        """Where command-line programs keep their settings."""
        return self.configuration or self.home / ".config"

    def folder(self, variable: str, usual: Path) -> Path:
        """The folder of a client: where its variable says, or where it usually is."""
        return self.moved.get(variable, usual)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipeConnection:
    """The client starts a program."""

    command: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpConnection:
    """The client calls an address; the key is in a variable of the environment."""

    url: str
    key_variable: str


Connection: TypeAlias = PipeConnection | HttpConnection


@dataclass(frozen=True, slots=True, kw_only=True)
class McpClient:
    """An assistant: where its files are, and how it writes an entry."""

    title: str
    places: Mapping[Scope, Callable[[InstallEnvironment], Path]]
    """Where an entry goes, by scope; the first is the default."""
    members: tuple[str, ...]
    """Where the entries are in the file."""
    entry: Callable[[Connection, str], JsonObject]
    """Makes the entry of a connection; the name is for ids that must be unique in the file."""
    beside: Callable[[Connection, str], Mapping[str, list[JsonObject]]] = lambda *_: {}
    """Lists of the file that an entry needs a member of, each with an `id`."""
    form: Literal["json", "toml"] = "json"
    speaks_http: bool = True
    asks_for_key: bool = False
    workspace: str = ""
    """How the folder of a project is written in its file; empty if programs are started there anyway."""
    afterwards: str = ""
    """What the user does next."""

    def to_server(self, url: str, key_variable: str, bridge: PipeConnection) -> Connection:
        """Return how it reaches a server: at its address, or by a bridge if it cannot."""
        return HttpConnection(url=url, key_variable=key_variable) if self.speaks_http else bridge

    def next_steps(self, connection: Connection, server: str | None, name: str, key_variable: str) -> list[str]:
        """Return what the user does after the entry is in its file."""
        steps = []
        if server is not None and not self.speaks_http:
            added = shlex.join(["penstock", "profile", "add", name, "--server", server])
            steps.append(f"Say where the key is: {added} --key-file FILE")
        elif isinstance(connection, HttpConnection) and not self.asks_for_key:
            steps.append(f"Put the key into {key_variable} where {self.title} is started.")
        return [*steps, self.afterwards]


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """A named entry, where it goes in a file, and what else the file needs for it."""

    name: str
    entry: JsonObject
    members: tuple[str, ...]
    beside: Mapping[str, list[JsonObject]]
    form: Literal["json", "toml"]

    @classmethod
    def of(cls, client: McpClient, connection: Connection, name: str) -> Addition:
        """Return what the file of a client needs for a connection."""
        return cls(
            name=name,
            entry=client.entry(connection, name),
            members=client.members,
            beside=client.beside(connection, name),
            form=client.form,
        )


def snippet(addition: Addition) -> str:
    """Return the text of a file that holds only the entry."""
    if addition.form == "toml":
        lines = [f"[{'.'.join(map(toml_key, (*addition.members, addition.name)))}]"]
        # Strings and lists of strings look the same in JSON and in TOML.
        lines += [
            f"{toml_key(name)} = {json.dumps(value, ensure_ascii=False)}" for name, value in addition.entry.items()
        ]
        return "\n".join(lines) + "\n"
    inner: JsonObject = {addition.name: addition.entry}
    for member in reversed(addition.members):
        inner = {member: inner}
    # Inputs come before the entry that uses them, where the order is free.
    content: JsonObject = {**{name: list(wanted) for name, wanted in addition.beside.items()}, **inner}
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def toml_key(name: str) -> str:
    """Return a name as TOML writes it."""
    return name if name and _BARE.issuperset(name) else json.dumps(name, ensure_ascii=False)


def _started(connection: PipeConnection) -> JsonObject:
    return {"command": connection.command, "args": list(connection.arguments)}


def _authorization(reference: str) -> JsonObject:
    return {"Authorization": f"Bearer {reference}"}


def _desktop(connection: Connection, name: str) -> JsonObject:
    assert isinstance(connection, PipeConnection)  # a client without HTTP gets no address
    return _started(connection)


def _claude_code(connection: Connection, name: str) -> JsonObject:
    match connection:
        case PipeConnection():
            return {"type": "stdio", **_started(connection)}
        case HttpConnection():
            headers = _authorization(f"${{{connection.key_variable}}}")
            return {"type": "http", "url": connection.url, "headers": headers}


def _cursor(connection: Connection, name: str) -> JsonObject:
    match connection:
        case PipeConnection():
            return _started(connection)
        case HttpConnection():
            return {"url": connection.url, "headers": _authorization(f"${{env:{connection.key_variable}}}")}


def _windsurf(connection: Connection, name: str) -> JsonObject:
    match connection:
        case PipeConnection():
            return _started(connection)
        case HttpConnection():
            return {"serverUrl": connection.url, "headers": _authorization(f"${{env:{connection.key_variable}}}")}


def _vscode(connection: Connection, name: str) -> JsonObject:
    match connection:
        case PipeConnection():
            return {"type": "stdio", **_started(connection)}
        case HttpConnection():
            return {"type": "http", "url": connection.url, "headers": _authorization(f"${{input:{name}-key}}")}


def _vscode_inputs(connection: Connection, name: str) -> Mapping[str, list[JsonObject]]:
    if isinstance(connection, PipeConnection):
        return {}
    asked: JsonObject = {
        "type": "promptString",
        "id": f"{name}-key",
        "description": f"API key of {name}",
        "password": True,
    }
    return {"inputs": [asked]}


def _codex(connection: Connection, name: str) -> JsonObject:
    match connection:
        case PipeConnection():
            return _started(connection)
        case HttpConnection():
            return {"url": connection.url, "bearer_token_env_var": connection.key_variable}


def _gemini(connection: Connection, name: str) -> JsonObject:
    match connection:
        case PipeConnection():
            return _started(connection)
        case HttpConnection():
            return {"httpUrl": connection.url, "headers": _authorization(f"${{{connection.key_variable}}}")}


def _copilot(connection: Connection, name: str) -> JsonObject:
    assert isinstance(connection, PipeConnection)  # it takes no reference to a key in a header
    return {"type": "local", **_started(connection), "tools": ["*"]}


def _opencode(connection: Connection, name: str) -> JsonObject:
    match connection:
        case PipeConnection():
            return {"type": "local", "command": [connection.command, *connection.arguments], "enabled": True}
        case HttpConnection():
            headers = _authorization(f"{{env:{connection.key_variable}}}")
            # Without this it would try to log in at the server before it sends the header.
            return {"type": "remote", "url": connection.url, "oauth": False, "headers": headers, "enabled": True}


# Places and shapes are those of the clients' own documentation. Not all of it is certain: Claude Desktop has no build
# of its maker for Linux, and its place there is that of the others; whether Copilot CLI resolves a variable in a header
# has changed with its versions, so it is given the bridge; Codex reads the file of a project if it trusts the project.
CLIENTS: Mapping[str, McpClient] = {
    "claude-desktop": McpClient(
        title="Claude Desktop",
        places={"user": lambda here: here.applications / "Claude" / "claude_desktop_config.json"},
        members=("mcpServers",),
        entry=_desktop,
        speaks_http=False,
        afterwards="Quit Claude Desktop and start it again.",
    ),
    "claude-code": McpClient(
        title="Claude Code",
        places={
            "project": lambda here: here.project / ".mcp.json",
            "user": lambda here: here.folder("CLAUDE_CONFIG_DIR", here.home) / ".claude.json",
        },
        members=("mcpServers",),
        entry=_claude_code,
        afterwards="Start `claude` again and look with /mcp.",
    ),
    "cursor": McpClient(
        title="Cursor",
        places={
            "user": lambda here: here.home / ".cursor" / "mcp.json",
            "project": lambda here: here.project / ".cursor" / "mcp.json",
        },
        members=("mcpServers",),
        entry=_cursor,
        workspace="${workspaceFolder}",
        afterwards="Start Cursor again, open Customize, then MCPs, and switch the server on.",
    ),
    "vscode": McpClient(
        title="VS Code",
        places={
            "project": lambda here: here.project / ".vscode" / "mcp.json",
            "user": lambda here: here.applications / "Code" / "User" / "mcp.json",
        },
        members=("servers",),
        entry=_vscode,
        beside=_vscode_inputs,
        asks_for_key=True,
        workspace="${workspaceFolder}",
        afterwards="Run the command `MCP: List Servers` and start the server.",
    ),
    "windsurf": McpClient(
        title="Windsurf",
        places={"user": lambda here: here.home / ".codeium" / "windsurf" / "mcp_config.json"},
        members=("mcpServers",),
        entry=_windsurf,
        afterwards="Press Refresh in the MCP servers of Cascade.",
    ),
    "codex": McpClient(
        title="Codex",
        places={
            "user": lambda here: here.folder("CODEX_HOME", here.home / ".codex") / "config.toml",
            "project": lambda here: here.project / ".codex" / "config.toml",
        },
        members=("mcp_servers",),
        entry=_codex,
        form="toml",
        afterwards="Start `codex` again and look with /mcp; the file of a project is read if Codex trusts the project.",
    ),
    "gemini-cli": McpClient(
        title="Gemini CLI",
        places={
            "user": lambda here: here.home / ".gemini" / "settings.json",
            "project": lambda here: here.project / ".gemini" / "settings.json",
        },
        members=("mcpServers",),
        entry=_gemini,
        afterwards="Start `gemini` again and look with /mcp.",
    ),
    "opencode": McpClient(
        title="opencode",
        places={
            "user": lambda here: here.settings / "opencode" / "opencode.json",
            "project": lambda here: here.project / "opencode.json",
        },
        members=("mcp",),
        entry=_opencode,
        afterwards="Start `opencode` again.",
    ),
    "copilot-cli": McpClient(
        title="GitHub Copilot CLI",
        places={
            "user": lambda here: here.folder("COPILOT_HOME", here.home / ".copilot") / "mcp-config.json",
            "project": lambda here: here.project / ".mcp.json",
        },
        members=("mcpServers",),
        entry=_copilot,
        speaks_http=False,
        afterwards="Start `copilot` again and look with /mcp show.",
    ),
    "zed": McpClient(
        title="Zed",
        places={
            "user": lambda here: (
                here.applications / "Zed" / "settings.json"
                if here.system == "windows"
                else here.settings / "zed" / "settings.json"
            ),
            "project": lambda here: here.project / ".zed" / "settings.json",
        },
        members=("context_servers",),
        entry=_desktop,
        speaks_http=False,
        afterwards="Zed starts it at once; look in the settings under AI, then MCP Servers.",
    ),
}
