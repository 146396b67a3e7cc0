"""The operation that says how assistants are connected to this server: for each an entry to copy, and where it goes.

No entry holds a key: each says where its client finds it.

Above it: the catalogue. Below it: `clients`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from penstock.base.errors import Unavailable
from penstock.operations.catalogue.capability import Capability, Example, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.gate.context import Context
from penstock.operations.system.clients import (
    CLIENTS,
    Addition,
    InstallEnvironment,
    McpClient,
    PipeConnection,
    System,
    snippet,
)

__all__ = ["OPERATIONS"]

_NAME = "penstock"
_KEY_VARIABLE = "PENSTOCK_API_KEY"
_SYSTEMS: dict[System, str] = {"linux": "Linux", "macos": "macOS", "windows": "Windows"}


class ConnectClients(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where clients reach this server."""

    address: Annotated[
        str,
        Meta(
            description="The address of this server as clients reach it, without a path.",
            pattern=r"^https?://[A-Za-z0-9.:\[\]_-]+$",
            max_length=300,
            examples=["https://penstock.example"],
        ),
    ]


class ClientEntry(msgspec.Struct, frozen=True, kw_only=True):
    """How one assistant is connected."""

    client: str
    """Its name for `penstock mcp install`."""
    title: str
    format: str
    """json or toml."""
    snippet: str
    """What goes into its file."""
    files: list[str]
    """Where the file is; with the system, where that matters."""
    steps: list[str]
    """What to do afterwards."""
    command: str
    """The command that writes the entry."""


class ClientEntries(msgspec.Struct, frozen=True, kw_only=True):
    """How assistants are connected."""

    url: str
    """The address of MCP."""
    items: list[ClientEntry]


@operation(
    "system.clients",
    route=Route(method="GET", path="/clients", query=("address",)),
    scopes=(),
    reads=True,
    errors=("NOT_CONFIGURED",),
    examples=(Example(arguments={"address": "https://penstock.example"}),),
)
async def system_clients(context: Context, given: ConnectClients) -> ClientEntries:
    """List how assistants connect to this server.

    For each known assistant: the entry for its file, where the file is, and what to do then. It contains no key: each
    entry says where its client finds the key.
    """
    path = context.services.mcp.path
    if path is None:
        raise Unavailable("NOT_CONFIGURED", "this process does not serve MCP", "set `server.mcp.enabled`")
    url = given.address + path
    items = [_entry(name, client, given.address, url) for name, client in CLIENTS.items()]
    return ClientEntries(url=url, items=items)


def _entry(name: str, client: McpClient, server: str, url: str) -> ClientEntry:
    bridge = PipeConnection(command=_NAME, arguments=("mcp", "--profile", _NAME))
    connection = client.to_server(url, _KEY_VARIABLE, bridge)
    return ClientEntry(
        client=name,
        title=client.title,
        format=client.form,
        snippet=snippet(Addition.of(client, connection, _NAME)),
        files=_files(client),
        steps=client.next_steps(connection, server, _NAME, _KEY_VARIABLE),
        command=f"penstock mcp install {name} --server {server} --write",
    )


def _files(client: McpClient) -> list[str]:
    """Return where a client keeps its entries: for a user, in which system, and for a project."""
    found: list[str] = []
    for scope, place in client.places.items():
        by_system = {
            system: place(InstallEnvironment(system=system, home=Path("~"), project=Path())).as_posix()
            for system in _SYSTEMS
        }
        if len({*by_system.values()}) == 1:
            found.append(f"{by_system['linux']} ({scope})")
        else:
            found.extend(f"{path} ({scope}, {_SYSTEMS[system]})" for system, path in by_system.items())
    return found


OPERATIONS: tuple[Capability, ...] = (system_clients,)
