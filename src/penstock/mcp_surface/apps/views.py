"""Which tools have a page that clients with MCP Apps show beside their results, and which clients those are.

A tool names its page in `_meta.ui` only to a client that declared the extension: for all others the list stays as
small as it was. Above it: the handlers of methods, the fast path. Below it: `tools.tool_list`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.base.json import JsonObject, object_or_empty
from penstock.mcp_surface.tools.tool_list import Tool
from penstock.operations.catalogue.capability import REGISTERED_TOOL

__all__ = [
    "APPROVAL_PAGE",
    "APPS_EXTENSION",
    "APP_MIME_TYPE",
    "APP_PAGES",
    "RUN_PAGE",
    "VIEW_META",
    "declares_apps",
    "view_of",
    "with_view",
]

APPS_EXTENSION = "io.modelcontextprotocol/ui"
APP_MIME_TYPE = "text/html;profile=mcp-app"
APPROVAL_PAGE = "ui://penstock/approval"
RUN_PAGE = "ui://penstock/run"
APP_PAGES = (APPROVAL_PAGE, RUN_PAGE)
VIEW_META = "penstock/view"
"""The key in a result's metadata that holds what its page shows beside the structured content."""

_SHOWN = {
    "workflow.execute": RUN_PAGE,
    "execution.status": RUN_PAGE,
    "execution.wait": RUN_PAGE,
    "agent.execute": RUN_PAGE,
    "agent.message": RUN_PAGE,
    "draft.get": APPROVAL_PAGE,
    "draft.propose": APPROVAL_PAGE,
    "draft.commit": APPROVAL_PAGE,
    "draft.cancel": APPROVAL_PAGE,
}


def declares_apps(extensions: object) -> bool:
    """Return whether a client with these extensions shows the only kind of page that we have."""
    settings = extensions.get(APPS_EXTENSION) if isinstance(extensions, Mapping) else None
    kinds = settings.get("mimeTypes") if isinstance(settings, Mapping) else None
    return isinstance(kinds, list | tuple) and APP_MIME_TYPE in kinds


def view_of(tool: Tool) -> str | None:
    """Return the address of the page that shows the results of a tool; None if it has none.

    A workflow has the page of runs, which shows a call that is held as well. Other tools that change something have
    the page of approvals: their results are their own, but a call of them may be held.
    """
    capability = tool.capability
    if capability.populator == "workflow":
        return RUN_PAGE
    if capability.populator in ("upstream", REGISTERED_TOOL):
        return None if capability.annotations.read_only else APPROVAL_PAGE
    return _SHOWN.get(capability.name) if capability.is_builtin else None


def with_view(tool: Tool) -> Tool:
    """Return a tool as it is listed to clients that show pages."""
    page = view_of(tool)
    if page is None:
        return tool
    meta: JsonObject = {**object_or_empty(tool.listed.get("_meta")), "ui": {"resourceUri": page}}
    return replace(tool, listed={**tool.listed, "_meta": meta})
