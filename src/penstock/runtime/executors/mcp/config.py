"""The configured MCP servers, in the format that MCP clients use.

    {"mcpServers": {"shop": {"command": "uvx", "args": ["shop-mcp"], "env": {"TOKEN": "…"}},
                    "search": {"url": "https://mcp.example/mcp", "headers": {"authorization": "Bearer …"}}}}

Above it: `app` reads the operator's file. Below it: nothing; it does not need the MCP library. It starts nothing and
does not decide which commands may be started.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath, PureWindowsPath

from penstock.base.json import JsonObject, JsonValue
from penstock.runtime.upstreams.lending import Lending, LendingRules
from penstock.runtime.upstreams.oauth.model import BearerSource

__all__ = [
    "CLIENT",
    "DEFAULT_ALLOWED_COMMANDS",
    "OWN_SERVER",
    "McpServerConfig",
    "ServerProblem",
    "command_name",
    "read_servers",
]

CLIENT = "client"
"""The server name that stands for the program that started the run. No other server can have this name."""
OWN_SERVER = "penstock"
"""The server name that stands for this server itself. No other server can have this name."""
# Interpreters and package runners that usually start MCP servers. An operator may list others.
DEFAULT_ALLOWED_COMMANDS = ("node", "npx", "python", "python3", "uv", "uvx")
_WINDOWS_ENDINGS = (".exe", ".cmd", ".bat")
_KNOWN = frozenset({"command", "args", "env", "cwd", "url", "headers", "protocol", "timeout_ms", "type", "disabled"})


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServerConfig:
    """A server that is started as a process (`command`) or reached over HTTP (`url`): exactly one of them.

    `protocol` is `auto` (newest, falling back to the handshake of older servers), `legacy`, or a protocol version.
    """

    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    protocol: str = "auto"
    timeout_ms: int | None = None
    bearer: BearerSource | None = field(default=None, repr=False)
    """Gives requests their token, if the server wants OAuth."""
    lending: LendingRules | None = None
    """What the server is lent; None if nothing is."""

    def __post_init__(self) -> None:
        if (self.command is None) == (self.url is None):
            raise ValueError("an MCP server has either a command or a url")

    def lent_to(self, tenant: str) -> Lending | None:
        """What the server is lent for a tenant; None if nothing is."""
        return None if self.lending is None else self.lending.lent_to(tenant)


@dataclass(frozen=True, slots=True)
class ServerProblem:
    """A problem with a configured server."""

    server: str
    message: str


def read_servers(document: JsonValue) -> dict[str, McpServerConfig] | ServerProblem:
    """The servers of a configuration, with or without `mcpServers` around them. Disabled ones are left out."""
    listed = document.get("mcpServers", document) if isinstance(document, dict) else None
    if not isinstance(listed, dict):
        return ServerProblem("", "`mcpServers` must be an object of servers by name")
    servers: dict[str, McpServerConfig] = {}
    for name, given in listed.items():
        if not isinstance(given, dict):
            return ServerProblem(name, "must be an object")
        if given.get("disabled") is True:
            continue
        server = _server(given)
        if isinstance(server, str):
            return ServerProblem(name, server)
        servers[name] = server
    return servers


def command_name(command: str) -> str:
    """The name of a command as allow-lists spell it: without folders and without a Windows suffix."""
    name = PureWindowsPath(PurePosixPath(command).name).name
    for ending in _WINDOWS_ENDINGS:
        if name.lower().endswith(ending):
            return name[: -len(ending)]
    return name


def _server(given: JsonObject) -> McpServerConfig | str:
    unknown = sorted(set(given) - _KNOWN)
    if unknown:
        return f"unknown setting `{unknown[0]}`; known: {', '.join(sorted(_KNOWN))}"
    command, url, cwd = given.get("command"), given.get("url"), given.get("cwd")
    if not _is_text(command, url, cwd) or (command is None) == (url is None):
        return "write either `command` (a program) or `url` (an address), as text"
    args, timeout = given.get("args", []), given.get("timeout_ms")
    if not isinstance(args, list) or not all(isinstance(item, str) for item in args):
        return "`args` must be a list of texts"
    env, headers = _texts(given.get("env", {})), _texts(given.get("headers", {}))
    if env is None or headers is None:
        return "`env` and `headers` must be objects of texts"
    if timeout is not None and (not isinstance(timeout, int) or isinstance(timeout, bool) or timeout < 1):
        return "`timeout_ms` must be a whole number of milliseconds"
    return McpServerConfig(
        command=None if command is None else str(command),
        args=tuple(str(item) for item in args),
        env=env,
        cwd=None if cwd is None else str(cwd),
        url=None if url is None else str(url),
        headers=headers,
        protocol=str(given.get("protocol", "auto")),
        timeout_ms=timeout,
    )


def _is_text(*values: JsonValue) -> bool:
    return all(value is None or (isinstance(value, str) and value) for value in values)


def _texts(value: JsonValue) -> dict[str, str] | None:
    if not isinstance(value, dict):
        return None
    texts = {key: member for key, member in value.items() if isinstance(member, str)}
    return texts if len(texts) == len(value) else None
