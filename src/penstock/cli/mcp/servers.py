"""Which MCP server a command talks to: one of ours, any address, any program, or one on the file of this project.

    penstock mcp tools --server https://penstock.example.com
    penstock mcp tools --url https://mcp.example.com/mcp --key-env EXAMPLE_KEY
    penstock mcp tools -- npx -y some-server

The key for our servers is sent to our servers only. For another address, the user names the headers.

Above it: `call`, `tools`, `doctor`, `install.command`, the bridge. Below it: `targets.selection`.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, TypeAlias
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from penstock.app.drivers import has_database
from penstock.cli.declaration import Option, echo
from penstock.cli.targets.selection import (
    FileTarget,
    ProfileOption,
    ServerOption,
    ServerTarget,
    TargetFileOption,
    choose_target,
)
from penstock.cli.targets.settings import command_settings
from penstock.cli.terminal.values import UsageError
from penstock.client.options import KEY_VARIABLE, is_loopback

__all__ = [
    "ERAS",
    "AsOwnerOption",
    "EraOption",
    "GraphOption",
    "HeaderOption",
    "HttpServer",
    "KeyVariableOption",
    "ManagementOption",
    "McpServer",
    "ServerChoice",
    "ServerOptions",
    "StdioServer",
    "ToolsetOption",
    "UrlOption",
    "WorkflowsOption",
    "chosen_toolset",
    "mcp_address",
    "resolve_server",
]

_PANEL = "Where"
_KEY_BEGINS = "pen_"
# What the name of the toolset of a graph begins with.
_GRAPH = "graph:"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
ERAS: Mapping[str, str] = {"auto": "auto", "modern": "2026-07-28", "legacy": "legacy"}
"""How to connect, as our options and the SDK call it."""

UrlOption = Annotated[
    str | None,
    Option("--url", metavar="URL", help="The MCP address of any server, as it is.", panel=_PANEL),
]
HeaderOption = Annotated[
    list[str] | None,
    Option("--header", metavar="NAME:VALUE", help="A header to send to --url.", panel=_PANEL),
]
KeyVariableOption = Annotated[
    str | None,
    Option(
        "--key-env",
        metavar="NAME",
        help="The variable of the environment with the key for --url, sent as a bearer token.",
        panel=_PANEL,
    ),
]
WorkflowsOption = Annotated[
    list[str] | None,
    Option(
        "--workflows",
        metavar="PATH",
        help="With a file: workflow files or folders to make known.",
        panel=_PANEL,
    ),
]
ToolsetOption = Annotated[
    str | None, Option("--toolset", metavar="NAMES", help="The tools to list: workflows, management, names …")
]
GraphOption = Annotated[
    str | None, Option("--graph", metavar="ID", help="Offer the tools of this graph, and nothing else.")
]
ManagementOption = Annotated[
    bool,
    Option("--management", help="Offer the operations too, with which an assistant can change workflows."),
]
AsOwnerOption = Annotated[
    bool, Option("--as-owner", help="With a file: let the assistant do everything that you may do.")
]
EraOption = Annotated[
    Literal["auto", "modern", "legacy"],
    Option("--era", help="modern is 2026-07-28, legacy the handshake of older revisions."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpServer:
    """A server at an address; the headers may have a key in them."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioServer:
    """A program that speaks MCP over its standard input and output."""

    command: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] | None = field(default=None, repr=False)


McpServer: TypeAlias = HttpServer | StdioServer


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerChoice:
    """What the options say about the server."""

    server: str | None = None
    profile: str | None = None
    url: str | None = None
    headers: tuple[str, ...] = ()
    key_variable: str | None = None
    database: Path | None = None
    workflows: tuple[str, ...] = ()
    toolset: str | None = None
    command: tuple[str, ...] = ()
    looks_only: bool = False
    """Leave nothing behind: without a database, use a temporary one that is removed at exit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """The options that say which MCP server a command talks to."""

    server: ServerOption = None
    profile: ProfileOption = None
    url: UrlOption = None
    header: HeaderOption = None
    key_env: KeyVariableOption = None
    database: TargetFileOption = None
    workflows: WorkflowsOption = None

    def choice(self, toolset: str | None, command: tuple[str, ...], *, looks_only: bool = False) -> ServerChoice:
        """What these options say about the server; `command` is the program after `--`."""
        return ServerChoice(
            server=self.server,
            profile=self.profile,
            url=self.url,
            headers=tuple(self.header or ()),
            key_variable=self.key_env,
            database=self.database,
            workflows=tuple(self.workflows or ()),
            toolset=toolset,
            command=command,
            looks_only=looks_only,
        )


def resolve_server(where: ServerChoice, variables: Mapping[str, str] | None = None) -> McpServer:
    """Resolve a choice to a server, with the credentials for it."""
    environment = os.environ if variables is None else variables
    ours = [("--server", where.server), ("--profile", where.profile), ("--db", where.database)]
    given = [name for name, value in (*ours, ("--url", where.url), ("a command after --", where.command)) if value]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} exclude each other; name one server")
    if where.url is None and (where.headers or where.key_variable):
        named = "--key-env" if where.key_variable else "--header"
        raise UsageError(
            f"{named} goes with --url; for a server of ours put the key into {KEY_VARIABLE}, "
            "or name a profile that has one (penstock config profile add --help)"
        )
    if where.command:
        if where.toolset or where.workflows:
            raise UsageError("--toolset and --workflows are for the program itself: write them after its name")
        return StdioServer(command=where.command[0], arguments=where.command[1:], environment=environment)
    if where.workflows and (where.url or where.server or where.profile):
        raise UsageError("--workflows goes with a file: a server has its own")
    if where.url is not None:
        return HttpServer(url=_exact_address(where), headers=_headers(where, environment))
    target = choose_target(where.server, where.profile, where.database, environment)
    match target:
        case ServerTarget(server=server, key=key):
            secret = key or environment.get(KEY_VARIABLE)
            headers = {"Authorization": f"Bearer {secret}"} if secret else {}
            address = mcp_address(server, where.toolset)
            _warn_of_plain_text(address, has_key=bool(secret))
            return HttpServer(url=address, headers=headers)
        case FileTarget(path=path):
            return _local(path, where, environment)


def _local(path: Path | None, where: ServerChoice, environment: Mapping[str, str]) -> StdioServer:
    if where.looks_only and not has_database(database := _database(path)):
        path = _temporary(database.name)
    options = [] if path is None else ["--db", str(path)]
    options += [word for item in where.workflows for word in ("--workflows", item)]
    options += ["--toolset", where.toolset] if where.toolset else []
    return StdioServer(
        command=sys.executable, arguments=("-m", "penstock", "mcp", *options), environment=dict(environment)
    )


def chosen_toolset(toolset: str | None, *, management: bool, graph: str | None = None) -> str | None:
    """The toolset that the options ask for; None for that of the settings."""
    if graph is not None:
        if toolset is not None or management:
            raise UsageError("--graph goes without --toolset and --management: it offers the tools of one graph")
        return f"{_GRAPH}{graph}"
    if toolset is not None and management:
        raise UsageError("--management is short for --toolset management: give one of them")
    return "management" if management else toolset


def _database(path: Path | None) -> Path:
    return path or Path(command_settings().settings.storage.path)


def _temporary(name: str) -> Path:
    folder = tempfile.mkdtemp(prefix="penstock-")
    # By then both this command and the program that it started have ended.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder) / name


def mcp_address(server: str, toolset: str | None) -> str:
    """The MCP address of one of our servers; the rest of its query is kept."""
    parts = urlsplit(server)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"--server takes an address such as https://penstock.example.com, not {server!r}")
    if parts.username or parts.password or _KEY_BEGINS in parts.query:
        raise UsageError("--server takes an address without a key or password in it")
    path = parts.path.rstrip("/")
    if toolset is not None and toolset.startswith(_GRAPH):
        graph = quote(toolset.removeprefix(_GRAPH), safe="")
        path = f"{path.removesuffix('/mcp')}/graphs/{graph}/mcp"
        return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))
    path = path if path.endswith("/mcp") else f"{path}/mcp"
    return urlunsplit((parts.scheme, parts.netloc, path, _query(parts.query, toolset), ""))


def _query(query: str, toolset: str | None) -> str:
    """A query that asks for a toolset; without one it stays as it is."""
    if toolset is None:
        return query
    others = [(name, value) for name, value in parse_qsl(query, keep_blank_values=True) if name != "toolset"]
    return urlencode([*others, ("toolset", toolset)], safe=",:.", quote_via=quote)


def _exact_address(where: ServerChoice) -> str:
    url = where.url or ""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"--url takes an address such as https://mcp.example.com/mcp, not {url!r}")
    _warn_of_plain_text(url, has_key=bool(where.headers or where.key_variable))
    return urlunsplit((*parts[:3], _query(parts.query, where.toolset), ""))


def _headers(where: ServerChoice, variables: Mapping[str, str]) -> dict[str, str]:
    found = _named_headers(where.headers)
    if where.key_variable is not None:
        key = variables.get(where.key_variable)
        if not key:
            raise UsageError(_unset(where.key_variable))
        found["Authorization"] = f"Bearer {key}"
    return found


def _unset(variable: str) -> str:
    """The message for a variable that is not set. The user may have typed the key itself, which must not be shown."""
    if not _VARIABLE.fullmatch(variable) or variable.startswith(_KEY_BEGINS):
        return "--key-env takes the name of a variable, not the key itself: export MY_KEY=…, then --key-env MY_KEY"
    return f"--key-env: the variable {variable} is not set; export {variable}=… first"


def _named_headers(lines: Sequence[str]) -> dict[str, str]:
    found = {}
    for line in lines:
        name, separator, value = line.partition(":")
        if not separator or not name.strip() or not (name.strip().isascii() and value.isprintable()):
            raise UsageError("--header takes NAME:VALUE, such as 'X-Team: shop'")
        found[name.strip()] = value.strip()
    return found


def _warn_of_plain_text(url: str, *, has_key: bool) -> None:
    parts = urlsplit(url)
    if has_key and parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        echo(f"warning: the key goes to {parts.hostname} without encryption; use https", err=True)
