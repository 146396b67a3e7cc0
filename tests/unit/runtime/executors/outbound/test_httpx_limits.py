"""Events of an agent mean what was sent, whatever Python takes for the end of a line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import httpx
from a2a.client.transports.http_helpers import parse_sse_stream
from hypothesis import given
from hypothesis import strategies as st

from penstock.runtime.executors.outbound.bounded_body import ResponseLimits
from penstock.runtime.executors.outbound.httpx_limits import limiting_hooks

_BOUNDS = ResponseLimits(bytes_max=100_000, tokens_max=1_000)
_NO_ENDS = "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"


def read(body: bytes, *, size: int, kind: str = "text/event-stream") -> list[str]:
    """The data of the events of a body that comes in pieces, as the library for agents reads them."""

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), size):
            yield body[start : start + size]

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"content-type": kind}, content=pieces())

    async def main() -> list[str]:
        transport = httpx.MockTransport(answer)
        async with (
            httpx.AsyncClient(transport=transport, event_hooks=limiting_hooks(_BOUNDS)) as client,
            client.stream("POST", "http://agent.test", headers={"accept": "text/event-stream"}) as response,
        ):
            return [data async for _, data in parse_sse_stream(response)]

    return asyncio.run(main())


def event(value: object, end: str = "\n") -> bytes:
    return f"data: {json.dumps(value, ensure_ascii=False)}{end}{end}".encode()


@given(
    texts=st.lists(st.text(alphabet=st.sampled_from(f"a\u00e9\u20ac{_NO_ENDS[5:]}"), max_size=12), max_size=4),
    size=st.integers(1, 30),
    end=st.sampled_from(("\n", "\r", "\r\n")),
)
def test_every_text_arrives_whole_in_whatever_pieces(texts: list[str], size: int, end: str) -> None:
    found = read(b"".join(event({"text": text}, end) for text in texts), size=size)
    assert [json.loads(data)["text"] for data in found] == texts


def test_nothing_that_is_no_end_of_a_line_begins_another_field_or_event() -> None:
    for character in _NO_ENDS:
        hidden = f'data: {{"said": "harmless{character}{character}data: [1,2,3]{character}event: error"}}\n\n'
        [data] = read(hidden.encode(), size=7)
        assert json.loads(data)["said"] == f"harmless{character * 2}data: [1,2,3]{character}event: error"


def test_events_are_utf_8_whatever_their_headers_say() -> None:
    [data] = read(event({"text": "\u2028\u00e9"}), size=5, kind="text/event-stream; charset=iso-8859-1")
    assert json.loads(data) == {"text": "\u2028\u00e9"}
