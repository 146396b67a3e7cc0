"""Lists of resources that have pages."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from penstock.base import limits
from penstock.mcp_surface.handlers import in_pages

pytestmark = pytest.mark.anyio


async def test_a_long_list_goes_on_after_the_last_entry_of_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MCP_RESOURCES_PAGE", 2)
    listed = ["a", "b", "c", "d", "e"]

    async def handle(context: Any, params: Any) -> Any:
        return {"resources": [{"uri": uri} for uri in listed], "resultType": "complete"}

    pages: Any = in_pages(handle, "resources", "uri")
    seen: list[list[str]] = []
    cursor: str | None = None
    while cursor is not None or not seen:
        page = await pages(None, types.PaginatedRequestParams(cursor=cursor))
        seen.append([item["uri"] for item in page["resources"]])
        cursor = page.get("nextCursor")
        if "c" in listed:
            listed.remove("c")  # the list changes between two pages
    assert seen == [["a", "b"], ["d", "e"]]
    with pytest.raises(MCPError, match="Invalid cursor"):
        await pages(None, types.PaginatedRequestParams(cursor="page 2"))
