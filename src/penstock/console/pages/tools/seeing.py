"""Which tools somebody sees over MCP, why others are hidden, and how assistants are connected."""

from __future__ import annotations

from penstock.base import limits
from penstock.console.pages.reading import part
from penstock.console.visits import Page, Shown, Visit

__all__ = ["connect", "seen"]


async def seen(visit: Visit) -> Shown:
    """Show the tools of the visitor or of a key, and what is hidden from it."""
    key, toolset = visit.query.text("key"), visit.query.text("toolset")
    every = bool(visit.query.text("operations"))
    tools = await part(visit, "policy.tools", key=key or None, toolset=toolset or None, operations=every)
    keys = await part(visit, "key.list", limit=limits.PAGE_LIMIT_MAX)
    items = tools.value["items"] if tools.value else []
    return Page(
        "tools/seen.html",
        {
            "section": "tools",
            "tab": "seen",
            "tools": tools,
            "listed": [item for item in items if item["hidden"] is None],
            "hidden": [item for item in items if item["hidden"] is not None],
            "keys": [item for item in (keys.value or {"items": []})["items"] if item["status"] == "active"],
            "key": key,
            "toolset": toolset,
            "every": every,
        },
    )


async def connect(visit: Visit) -> Shown:
    """Show how assistants are connected to this server, at the address that the visitor reached it by."""
    entries = await part(visit, "system.clients", address=visit.address)
    chosen = visit.query.text("client")
    found = entries.value["items"] if entries.value else []
    entry = next((item for item in found if item["client"] == chosen), found[0] if found else None)
    given = {"section": "tools", "tab": "connect", "entries": entries, "entry": entry}
    return Page("tools/connect.html", given)
