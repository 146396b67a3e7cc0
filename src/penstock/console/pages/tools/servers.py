"""Servers whose tools are imported: their status, and the texts of their tools, to be accepted word by word.

A tool is accepted, or refused, with the hash that the page showed, one at a time: what is decided about is what was
read.
"""

from __future__ import annotations

from typing import Any

from penstock.base.errors import Rejected
from penstock.console.pages.reading import address, chosen, held
from penstock.console.rendering import cut_value
from penstock.console.visits import Page, Redirect, Shown, Visit
from penstock.console.word_changes import changed_words

__all__ = ["listing", "server"]

_ACTIONS = {
    "accept": "upstream.accept",
    "refuse": "upstream.refuse",
    "revoke": "upstream.revoke",
    "refresh": "upstream.refresh",
}
_STATUSES = ("changed", "new", "pinned", "refused", "gone", "excluded")


async def listing(visit: Visit) -> Shown:
    """Show the servers and how many of their tools stand how."""
    page = await visit.call("upstream.list")
    return Page("tools/servers.html", {"section": "tools", "tab": "servers", "servers": page["items"]})


async def server(visit: Visit) -> Shown:
    """Show the tools of a server; accept or refuse one as it is now, or take it out."""
    name = visit.path["server"]
    if visit.form is not None:
        operation = chosen(visit.form, _ACTIONS)
        tool = visit.form.text("tool")
        arguments: dict[str, Any] = {"server": name}
        if operation == "upstream.accept":
            if not tool or tool == "*":
                raise Rejected("TOOL_NEEDED", "tools are accepted one at a time", "open the page again")
            arguments |= {"tools": [tool], "hash": visit.form.text("hash")}
        elif operation == "upstream.refuse":
            reason = visit.form.text("reason")
            if not reason:
                return await _page(visit, wrong=tool)
            arguments |= {"tool": tool, "hash": visit.form.text("hash"), "reason": reason}
        elif operation == "upstream.revoke":
            arguments["tool"] = tool
        done = await visit.call(operation, **arguments)
        return held(done) or Redirect(address("tools", "servers", name))
    return await _page(visit)


async def _page(visit: Visit, *, wrong: str | None = None) -> Page:
    """Show the tools; `wrong` is the one whose refusal has no reason."""
    name = visit.path["server"]
    status = visit.query.text("status")
    if status and status not in _STATUSES:
        raise Rejected(
            "STATUS_UNKNOWN", f"{status[:40]} is not one of the choices", f"choose one of {', '.join(_STATUSES)}"
        )
    page = await visit.call("upstream.tools", server=name, status=status or None)
    tools = sorted((_shown(item) for item in page["items"]), key=lambda item: _STATUSES.index(item["status"]))
    given = {"section": "tools", "tab": "servers", "server": name, "tools": tools, "wrong": wrong}
    return Page("tools/server.html", {**given, "status": status, "statuses": _STATUSES}, 422 if wrong else 200)


def _shown(tool: dict[str, Any]) -> dict[str, Any]:
    changes = [
        {"name": name, "pieces": changed_words(both["accepted"], both["now"]), "now": cut_value(both["now"])}
        for name, both in (tool["difference"] or {}).items()
    ]
    schemas = {name: cut_value(tool[name]) for name in ("input_schema", "output_schema", "claims") if tool[name]}
    return {**tool, "changes": changes, "schemas": schemas, "description": cut_value(tool["description"] or "")}
