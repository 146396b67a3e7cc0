"""What steps write into their logs reaches the client that waits with them, as far as it wants to hear it."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import pytest

from tests.live.mcp.clients import ERAS, connected
from tests.live.rest.servers import LiveServer

pytestmark = pytest.mark.anyio
eras = pytest.mark.parametrize("era", ERAS)


@pytest.fixture
def server(streaming_server: LiveServer) -> LiveServer:
    """A server whose steps talk; its own log is not interested in them."""
    return streaming_server


async def lines_of(server: LiveServer, era: str, level: str | None) -> list[tuple[str, str | None, Any]]:
    """The lines that a client hears while it waits for the tool."""
    heard: list[tuple[str, str | None, Any]] = []

    async def hear(params: types.LoggingMessageNotificationParams) -> None:
        heard.append((params.level, params.logger, params.data))

    async with connected(server, era, logging_callback=hear) as client:
        meta: Any = {}
        if level is not None and era == "legacy":
            await client.session.send_request(
                types.SetLevelRequest(params=types.SetLevelRequestParams(level=level)),  # type: ignore[arg-type]
                types.EmptyResult,
            )
        elif level is not None:
            meta = {types.LOG_LEVEL_META_KEY: level}
        result = await client.call_tool("talk", meta=meta)
        assert result.is_error is False
    return heard


@eras
async def test_every_line_is_told_in_order_and_no_secret(server: LiveServer, era: str) -> None:
    assert await lines_of(server, era, "debug") == [
        ("debug", "first", "looking"),
        ("info", "first", "found 3 of them"),
        ("warning", "first", "the token is [secret]"),
        ("error", "second", "badly %s"),
        ("error", "second", "it went wrong"),
    ]


@eras
async def test_what_is_less_important_is_not_told(server: LiveServer, era: str) -> None:
    assert [line[0] for line in await lines_of(server, era, "error")] == ["error", "error"]


async def test_without_a_word_the_older_era_hears_what_people_care_about(server: LiveServer) -> None:
    assert [line[0] for line in await lines_of(server, "legacy", None)] == ["info", "warning", "error", "error"]


async def test_without_a_word_the_newest_era_hears_nothing(server: LiveServer) -> None:
    assert await lines_of(server, "2026-07-28", None) == []


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_the_server_says_that_it_has_logs(server: LiveServer, era: str) -> None:
    async with connected(server, era) as client:
        assert client.server_capabilities.logging is not None
