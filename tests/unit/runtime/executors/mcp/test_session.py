"""What a server sends over HTTP is read only as long as it is reasonable."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest

from penstock.base import limits
from penstock.runtime.executors.mcp.session import _AnsweringClient
from penstock.runtime.executors.outbound.bounded_body import TOO_LARGE
from penstock.runtime.executors.outbound.httpx2_limits import ResponseTooLarge

pytestmark = pytest.mark.anyio
_EVENT = b"data: x\r\n\r\n"


def client(kind: str, part: bytes, parts: int) -> _AnsweringClient:
    async def sent() -> AsyncIterator[bytes]:
        for _ in range(parts):
            yield part

    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": kind}, content=sent())

    return _AnsweringClient(transport=httpx2.MockTransport(answer))


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound that is reached soon."""
    monkeypatch.setattr(limits, "UPSTREAM_ANSWER_BYTES_MAX", 100)


async def test_an_answer_without_end_is_not_waited_for() -> None:
    for part in (b"x" * 60, b" \n\n" * 20):
        async with client("application/json", part, 1_000_000) as http:
            answer = await http.post("http://shop.test/mcp")
        assert answer.status_code == 503
        assert answer.json()["error"]["data"] == {TOO_LARGE: True}


async def test_many_events_are_no_large_one() -> None:
    async with (
        client("text/event-stream", _EVENT, 50) as http,
        http.stream("POST", "http://shop.test/mcp") as response,
    ):
        assert await response.aread() == _EVENT * 50


async def test_an_event_without_end_breaks_the_stream() -> None:
    async with client("text/event-stream", b"data: x", 1_000_000) as http:
        with pytest.raises(ResponseTooLarge):
            async with http.stream("POST", "http://shop.test/mcp") as response:
                await response.aread()
