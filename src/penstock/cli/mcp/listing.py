"""The list of an MCP server's tools, all pages of it.

Above it: `tools`, `doctor`. Below it: `app.mcp_client`. It is imported when it is needed.
"""

from __future__ import annotations

from dataclasses import dataclass

from mcp.client.client import Client
from mcp.shared.exceptions import MCPError

from penstock.app.mcp.client import ANSWER_ERRORS, Manners, connect_mcp
from penstock.app.mcp.places import Place
from penstock.base.json import JsonObject
from penstock.cli.mcp.showing import refusal, unreadable

__all__ = ["Listing", "every_tool", "listed", "server_name"]

_PAGES_MAX = 100
_TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What a server offers; tools are in the words of the wire."""

    version: str
    server: str | None
    tools: tuple[JsonObject, ...]


async def listed(place: Place, era: str) -> Listing:
    """Ask a server what it offers; raises what it refuses with as an error of ours."""
    try:
        async with connect_mcp(place, Manners(era=era, timeout_seconds=_TIMEOUT_SECONDS)) as client:
            return Listing(
                version=client.protocol_version, server=server_name(client), tools=tuple(await every_tool(client))
            )
    except MCPError as error:
        raise refusal(error.error.code, error.error.message, error.error.data) from error
    except ANSWER_ERRORS as error:
        raise unreadable(error) from error


async def every_tool(client: Client) -> list[JsonObject]:
    """The tools of all pages."""
    found: list[JsonObject] = []
    cursor: str | None = None
    for _ in range(_PAGES_MAX):
        page = await client.list_tools(cursor=cursor)
        found += [tool.model_dump(by_alias=True, mode="json", exclude_none=True) for tool in page.tools]
        cursor = page.next_cursor
        if cursor is None:
            break
    return found


def server_name(client: Client) -> str | None:
    """What a server calls itself, with its version."""
    info = client.server_info
    return None if info is None else f"{info.name} {info.version}"
