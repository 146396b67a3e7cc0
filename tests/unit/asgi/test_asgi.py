"""What the surfaces over HTTP share."""

import pytest
from starlette.types import Message, Receive

from penstock.asgi import client_left, header, read_messages, remote_of, replayed, request_id_of

pytestmark = pytest.mark.anyio


def receiving(*messages: Message) -> Receive:
    waiting = list(messages)

    async def receive() -> Message:
        return waiting.pop(0)

    return receive


def part(body: bytes, *, more: bool = False) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


async def test_a_body_in_parts_is_read_as_one_and_can_be_received_again() -> None:
    came, body = await read_messages(receiving(part(b"ab", more=True), part(b"c")), 3)
    assert body == b"abc"
    again = replayed(came, receiving({"type": "http.disconnect"}))
    assert [(await again())["type"] for _ in range(3)] == ["http.request", "http.request", "http.disconnect"]


async def test_a_body_that_is_too_large_or_not_whole_is_none() -> None:
    assert (await read_messages(receiving(part(b"abcd")), 3))[1] is None
    assert (await read_messages(receiving(part(b"a", more=True), {"type": "http.disconnect"}), 3))[1] is None


async def test_a_client_has_left_when_it_hangs_up() -> None:
    await client_left(receiving(part(b""), {"type": "http.disconnect"}))


def test_the_first_header_of_a_name_counts() -> None:
    scope = {"headers": [(b"a", b" 1 "), (b"a", b"2")], "client": ("::1", 1), "state": {"request_id": "r"}}
    assert (header(scope, b"a"), header(scope, b"b")) == ("1", None)
    assert (remote_of(scope), remote_of({"headers": []}), request_id_of(scope), request_id_of({})) == (
        "::1",
        None,
        "r",
        "",
    )
