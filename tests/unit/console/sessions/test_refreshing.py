"""A session at an issuer goes on while the issuer refreshes its token, with what the new token says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from penstock.app.retention import forget_console_sessions
from penstock.base import limits
from penstock.runtime.tables.resources import list_all_resources, put_resource
from tests.unit.console.sessions.browsing import HOUR, MINUTE, Browser, Process, Provider, a_process

pytestmark = pytest.mark.anyio
# When the tokens of the issuer stop being accepted.
EXPIRY = 5 * MINUTE + int(limits.TOKEN_LEEWAY_SECONDS * 1000)


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
async def process(tmp_path: Path, provider: Provider) -> AsyncIterator[Process]:
    async with a_process(tmp_path, provider) as running:
        yield running


def content(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir())


async def signed_in(process: Process, provider: Provider) -> Browser:
    browser = Browser(process)
    await browser.sign_in_at(provider)
    return browser


async def test_without_a_refresh_token_a_session_ends_with_its_token(provider: Provider, process: Process) -> None:
    provider.gives_refresh_tokens = False
    browser = await signed_in(process, provider)
    provider.clock.advance(EXPIRY - 1)
    assert await browser.is_in()
    provider.clock.advance(1)
    assert not await browser.is_in()
    assert provider.refreshed == 0


async def test_a_session_is_refreshed_while_it_is_used_and_rights_that_were_withdrawn_are_gone(
    provider: Provider, process: Process
) -> None:
    provider.claims = {"groups": ["support"], "preferred_username": "Ada"}
    browser = await signed_in(process, provider)
    assert (await browser.get("/console/workflows")).status == 200
    token = await browser.token()
    provider.claims = {"scope": "execution:read", "groups": []}
    assert (await browser.get("/console/workflows")).status == 200  # as the token said
    assert provider.refreshed == 0
    provider.clock.advance(EXPIRY)
    assert (await browser.get("/console/workflows")).status == 403
    assert provider.refreshed == 1
    assert await browser.token() == token  # what somebody writes meanwhile can be sent
    records = await process.audited("console_session.renew")
    assert [item["details"]["change"] for item in records] == ["refreshed", "refreshing"]
    for _ in range(10):
        provider.clock.advance(HOUR)
        assert await browser.is_in()
    assert len(provider.valid) == 1  # each was used once


async def test_tabs_and_processes_refresh_once_together(tmp_path: Path, provider: Provider, process: Process) -> None:
    browser = await signed_in(process, provider)
    async with a_process(tmp_path, provider) as another:
        provider.clock.advance(10 * MINUTE)  # expired: nobody can go on with the token before
        tabs = [browser.copy(process) for _ in range(4)] + [browser.copy(another) for _ in range(4)]
        assert await asyncio.gather(*(tab.is_in() for tab in tabs)) == [True] * 8
        assert provider.refreshed == 1


async def test_a_process_that_died_while_it_refreshed_is_waited_for_and_replaced(
    provider: Provider, process: Process
) -> None:
    browser = await signed_in(process, provider)
    kept = (await list_all_resources(process.gate.services.platform, "console_session"))[0]
    provider.clock.advance(EXPIRY - 10_000)
    body = {**kept.body, "refreshing_until_ms": provider.clock.now_ms() + limits.OAUTH_REFRESH_LEASE_MS}
    row = type(kept)(**{name: getattr(kept, name) for name in kept.__struct_fields__} | {"body": body, "etag": "x"})
    await put_resource(process.gate.services.platform, row, expected_etag=kept.etag)
    assert await browser.is_in()
    assert provider.refreshed == 0  # another one is at it, and the token still holds
    provider.clock.advance(limits.OAUTH_REFRESH_LEASE_MS)
    assert await browser.is_in()
    assert provider.refreshed == 1


async def test_an_issuer_that_refuses_ends_the_session_on_record(provider: Provider, process: Process) -> None:
    browser = await signed_in(process, provider)
    provider.refuses = True
    provider.clock.advance(EXPIRY)
    answer = await browser.get()
    assert answer.status == 303
    assert "Your session has expired" in (await browser.get(answer.header("location"))).body
    [record] = await process.audited("console_session.close")
    assert "invalid_grant" in record["details"]["reason"]
    assert record["details"]["session_of"] == "token:company:ada"
    provider.refuses = False
    assert not await browser.is_in()


@pytest.mark.parametrize(
    "claims", [{"sub": "eve"}, {"aud": "https://other.example"}, {"exp": 1}], ids=["person", "audience", "expired"]
)
async def test_a_new_token_that_is_of_somebody_else_or_not_valid_ends_the_session(
    provider: Provider, process: Process, claims: dict[str, object]
) -> None:
    browser = await signed_in(process, provider)
    provider.claims = claims
    provider.clock.advance(EXPIRY)
    assert not await browser.is_in()
    assert (await process.owner.call("console_session.list", everybody=True))["items"] == []


async def test_who_was_revoked_here_is_not_refreshed(provider: Provider, process: Process) -> None:
    provider.claims = {"jti": "one"}
    browser = await signed_in(process, provider)
    await process.owner.call("token.revoke", issuer="company", token_id="one")
    provider.clock.advance(EXPIRY)
    assert not await browser.is_in()
    assert provider.refreshed == 0


async def test_an_issuer_that_is_away_is_left_alone_while_the_token_holds_and_nothing_written_is_lost(
    provider: Provider, process: Process
) -> None:
    browser = await signed_in(process, provider)
    token = await browser.token()
    provider.is_down = True
    provider.clock.advance(EXPIRY - 10_000)
    assert await browser.is_in()
    attempts = await process.audited("console_session.renew")
    assert await browser.is_in()
    assert await process.audited("console_session.renew") == attempts  # it is not asked again at once
    provider.clock.advance(10_000)
    answer = await browser.get()
    assert (answer.status, "does not respond" in answer.body) == (503, True)
    kept = await browser.post("/console/keys", name="<b>written", form_token=token)
    assert (kept.status, "Not sent yet" in kept.body, "&lt;b&gt;written" in kept.body) == (503, True, True)
    provider.is_down = False
    assert await browser.is_in()


async def test_a_refreshed_session_still_ends_after_a_week_and_retention_forgets_its_tokens(
    provider: Provider, process: Process
) -> None:
    browser = await signed_in(process, provider)
    for _ in range(7 * 4 - 1):
        provider.clock.advance(6 * HOUR)
        await browser.get()
        assert await browser.is_in()
    platform = process.gate.services.platform
    await forget_console_sessions(process.gate)
    assert len(await list_all_resources(platform, "console_session")) == 1
    provider.clock.advance(6 * HOUR)
    assert not await browser.is_in()
    await forget_console_sessions(process.gate)
    assert await list_all_resources(platform, "console_session") == ()
    [record] = await process.audited("console_session.forget")
    assert (record["principal"], record["details"]["count"]) == ("system:retention", 1)


async def test_tokens_are_neither_in_the_cookie_nor_readable_in_the_file_nor_logged(
    tmp_path: Path, provider: Provider, process: Process, caplog: pytest.LogCaptureFixture
) -> None:
    browser = await signed_in(process, provider)
    provider.clock.advance(EXPIRY)
    assert await browser.is_in()
    provider.refuses = True
    provider.clock.advance(EXPIRY)
    assert not await browser.is_in()
    written = content(tmp_path)
    assert b"token:company:ada" in written
    for secret in ("refresh-1", "refresh-2", "eyJhbGci"):
        assert secret.encode() not in written
        assert secret not in caplog.text
        assert secret not in str(browser.jar)


async def test_who_signs_out_is_shown_the_way_out_at_the_issuer(provider: Provider, process: Process) -> None:
    browser = await signed_in(process, provider)
    answer = await browser.post("/console/sign-out", form_token=await browser.token())
    assert (answer.status, browser.jar) == (200, {})
    address = answer.body.partition('class="button" href="')[2].partition('"')[0].replace("&amp;", "&")
    place = urlsplit(address)
    assert f"{place.scheme}://{place.netloc}{place.path}" == "https://login.example/company/logout"
    query = {name: values[0] for name, values in parse_qs(place.query).items()}
    assert query["post_logout_redirect_uri"] == "https://flows.example/console/sign-in"
    assert query["client_id"] == "console"
    assert query["id_token_hint"].count(".") == 2
    assert not await browser.is_in()
    assert (await list_all_resources(process.gate.services.platform, "console_session")) == ()


async def test_signing_out_everywhere_forgets_the_tokens_of_all_sessions(provider: Provider, process: Process) -> None:
    here, there = await signed_in(process, provider), await signed_in(process, provider)
    await here.post("/console/sign-out", everywhere="yes", form_token=await here.token())
    assert not await there.is_in()
    assert (await list_all_resources(process.gate.services.platform, "console_session")) == ()
