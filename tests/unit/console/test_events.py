"""What a browser gets instead of a stream that cannot be opened."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.base.errors import Denied, LimitExceeded, PenstockError, Unavailable
from penstock.console.events import SIGNED_OUT, refused_stream


def sent(error: PenstockError) -> tuple[int, bytes]:
    messages: list[Any] = []

    async def send(message: Any) -> None:
        messages.append(message)

    asyncio.run(refused_stream(send, error))
    return messages[0]["status"], b"".join(message.get("body", b"") for message in messages)


@pytest.mark.parametrize("error", [SIGNED_OUT, Denied("SCOPE_MISSING", "you may not")])
def test_a_refusal_that_lasts_is_a_stream_that_says_so(error: PenstockError) -> None:
    status, body = sent(error)
    assert status == 200
    assert body.startswith(b"event: closed\ndata: ")
    assert error.code.encode() in body


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (LimitExceeded("RATE_LIMITED", "too many requests"), 429),
        (Unavailable("STORE_BUSY", "the file is locked"), 503),
    ],
)
def test_a_refusal_that_passes_is_an_error_after_which_a_page_connects_again(
    error: PenstockError, expected: int
) -> None:
    status, body = sent(error)
    assert status == expected
    assert b"event:" not in body
    assert error.code.encode() in body
