"""Bodies: one that is here is read without a timer, one that does not arrive is not waited for."""

import asyncio

import pytest
from starlette.types import Message, Scope

from penstock.base import limits
from penstock.base.errors import LimitExceeded
from penstock.rest import requests
from penstock.rest.requests import note_arrival, read_body

pytestmark = pytest.mark.anyio


async def whole() -> Message:
    return {"type": "http.request", "body": b"{}", "more_body": False}


async def test_a_body_that_is_here_is_read_without_a_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    timers: list[float | None] = []

    def noted(seconds: float | None) -> asyncio.Timeout:
        timers.append(seconds)
        return asyncio.Timeout(None)

    monkeypatch.setattr(requests.asyncio, "timeout", noted)  # type: ignore[attr-defined]
    scope: Scope = {"type": "http"}
    assert await read_body(whole, scope, {}, 10) == b"{}"
    assert timers == [limits.REQUEST_BODY_SECONDS_MAX]
    note_arrival(scope)
    assert await read_body(whole, scope, {}, 10) == b"{}"
    assert len(timers) == 1


async def test_a_body_that_does_not_arrive_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing() -> Message:
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    monkeypatch.setattr(limits, "REQUEST_BODY_SECONDS_MAX", 0.01)
    with pytest.raises(LimitExceeded) as refused:
        await read_body(nothing, {"type": "http", "state": {}}, {}, 10)
    assert refused.value.code == "REQUEST_TIMEOUT"


async def test_a_body_that_is_here_may_be_too_large_all_the_same() -> None:
    scope: Scope = {"type": "http"}
    note_arrival(scope)
    with pytest.raises(LimitExceeded) as refused:
        await read_body(whole, scope, {}, 1)
    assert refused.value.code == "BODY_TOO_LARGE"
