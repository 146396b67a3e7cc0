"""Requests wait as the server says, and fail the check where an answer shows a credential."""

from __future__ import annotations

import asyncio

import httpx2
import pytest

from penstock.cli.verify.checks import CheckFailed
from penstock.cli.verify.kit import Kit
from penstock.cli.verify.target import Answer, Target

TARGET = Target(url="http://t", admin_key="an-admin-key-of-some-other-server")


def ask(*answers: httpx2.Response, once: bool = False) -> tuple[Answer, int]:
    """Ask for the audit trail; the answer, and how many answers were not needed."""
    left = list(answers)

    async def work() -> Answer:
        transport = httpx2.MockTransport(lambda request: left.pop(0))
        async with httpx2.AsyncClient(base_url="http://t", transport=transport) as http:
            plane = Kit(TARGET, http).admin
            return await (plane.request_once if once else plane.request)("GET", "/audit")

    return asyncio.run(work()), len(left)


def limited(seconds: str = "0") -> httpx2.Response:
    return httpx2.Response(429, headers={"retry-after": seconds})


def test_a_request_that_is_told_to_wait_is_repeated_until_it_is_served() -> None:
    answer, left = ask(limited(), limited(), httpx2.Response(200, text="served"))
    assert (answer.status, answer.text, left) == (200, "served", 0)


def test_a_limit_that_an_event_stream_names_is_waited_for() -> None:
    told = 'data: {"error":{"data":{"code":"RATE_LIMITED","retry_after_seconds":0}}}\n\n'
    answer, left = ask(httpx2.Response(200, text=told), httpx2.Response(200, text="served"))
    assert (answer.text, left) == ("served", 0)


def test_a_check_of_limits_sees_the_429() -> None:
    answer, left = ask(limited(), httpx2.Response(200), once=True)
    assert (answer.status, left) == (429, 1)


def test_an_answer_with_a_part_of_the_credential_fails_the_check() -> None:
    with pytest.raises(CheckFailed, match="no part of a credential") as failure:
        ask(httpx2.Response(200, json={"data": {"items": [{"details": {"debug": "key-of-some-other-server"}}]}}))
    assert "other-server" not in str(failure.value)
