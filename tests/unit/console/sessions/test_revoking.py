"""A person who signs out takes their refresh token back at the issuer, and is signed out whatever the issuer says."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.unit.console.sessions.browsing import Browser, Process, Provider, a_process
from tests.waiting import until

pytestmark = pytest.mark.anyio


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
async def process(tmp_path: Path, provider: Provider) -> AsyncIterator[Process]:
    async with a_process(tmp_path, provider) as running:
        yield running


async def sign_out(browser: Browser, **fields: str) -> None:
    answer = await browser.post("/console/sign-out", form_token=await browser.token(), **fields)
    assert answer.status in (200, 303)
    assert not await browser.is_in()


async def test_signing_out_revokes_the_refresh_token_of_the_session(provider: Provider, process: Process) -> None:
    one, two = Browser(process), Browser(process)
    await one.sign_in_at(provider)
    await two.sign_in_at(provider)
    await sign_out(one)
    await until(lambda: provider.revoked == ["refresh-1"])
    assert await two.is_in()
    await two.sign_in_at(provider)  # the session before ends, too
    await until(lambda: provider.revoked == ["refresh-1", "refresh-2"])


async def test_signing_out_everywhere_revokes_all(provider: Provider, process: Process) -> None:
    one, two = Browser(process), Browser(process)
    await one.sign_in_at(provider)
    await two.sign_in_at(provider)
    await sign_out(one, everywhere="yes")
    await until(lambda: sorted(provider.revoked) == ["refresh-1", "refresh-2"])
    assert not await two.is_in()


async def test_an_issuer_that_is_away_holds_nobody_up(
    provider: Provider, process: Process, caplog: pytest.LogCaptureFixture
) -> None:
    browser = Browser(process)
    await browser.sign_in_at(provider)
    token = await browser.token()
    provider.is_down = True
    with caplog.at_level(logging.WARNING, "penstock.console"):
        answer = await browser.post("/console/sign-out", form_token=token)
        assert answer.status in (200, 303)
        await until(lambda: "was not revoked: nobody is there" in caplog.text)
    assert "refresh-1" not in caplog.text
    assert not await browser.is_in()
