"""Which tools name a page, and to whom."""

from __future__ import annotations

import pytest

from penstock.mcp_surface.apps.views import APP_MIME_TYPE, APPROVAL_PAGE, RUN_PAGE, declares_apps, view_of, with_view
from penstock.mcp_surface.options import McpOptions
from penstock.mcp_surface.tools.registry import build_tool_list
from penstock.operations.builtin import builtin_operations

UI = "io.modelcontextprotocol/ui"


@pytest.mark.parametrize(
    ("extensions", "shows"),
    [
        ({UI: {"mimeTypes": [APP_MIME_TYPE]}}, True),
        ({UI: {"mimeTypes": ["text/uri-list", APP_MIME_TYPE]}}, True),
        ({UI: {"mimeTypes": ["text/html"]}}, False),
        ({UI: {"mimeTypes": APP_MIME_TYPE}}, False),
        ({UI: {}}, False),
        ({UI: None}, False),
        ({"io.modelcontextprotocol/tasks": {}}, False),
        ({}, False),
        (None, False),
        (7, False),
    ],
)
def test_a_client_shows_pages_if_it_names_their_kind(extensions: object, shows: bool) -> None:
    assert declares_apps(extensions) is shows


def test_operations_that_show_a_run_or_a_held_call_have_a_page_and_no_others() -> None:
    tools = build_tool_list(builtin_operations(), McpOptions()).tools
    pages = {tool.capability.name: page for tool in tools if (page := view_of(tool)) is not None}
    runs = ("workflow.execute", "execution.status", "execution.wait", "agent.execute", "agent.message")
    drafts = ("draft.get", "draft.propose", "draft.commit", "draft.cancel")
    assert pages == dict.fromkeys(runs, RUN_PAGE) | dict.fromkeys(drafts, APPROVAL_PAGE)


def test_a_page_is_named_beside_the_other_metadata_and_the_list_of_others_stays_as_it_was() -> None:
    tool = build_tool_list(builtin_operations(), McpOptions()).find("execution.status")
    assert tool is not None
    before = dict(tool.listed)
    shown = with_view(tool).listed
    assert tool.listed == before
    meta = before.get("_meta", {})
    assert isinstance(meta, dict)
    assert "ui" not in meta
    assert shown == {**before, "_meta": {**meta, "ui": {"resourceUri": RUN_PAGE}}}
