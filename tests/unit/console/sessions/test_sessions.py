"""A session ends where it is ended: on every process, for every copy of its cookie; and a copy is noticed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from penstock.base import limits
from penstock.console.sessions.sessions import COOKIE
from tests.unit.console.sessions.browsing import HOUR, MINUTE, Browser, Process, Provider, a_process

pytestmark = pytest.mark.anyio
TURN, GRACE = limits.CONSOLE_SESSION_RENEWED_MS, limits.CONSOLE_SESSION_GRACE_MS


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
async def process(tmp_path: Path, provider: Provider) -> AsyncIterator[Process]:
    async with a_process(tmp_path, provider) as running:
        yield running


async def key(process: Process, *scopes: str, **more: str) -> str:
    made = await process.owner.call("key.create", name="ada", kind="person", scopes=list(scopes), **more)
    return str(made["secret"])


async def signed_in(process: Process, *scopes: str) -> Browser:
    browser = Browser(process)
    await browser.sign_in(await key(process, *(scopes or ("execution:read",))))
    return browser


async def test_signing_out_ends_every_copy_of_the_cookie_on_every_process(
    tmp_path: Path, provider: Provider, process: Process
) -> None:
    browser = await signed_in(process)
    async with a_process(tmp_path, provider) as another:
        here, there = browser.copy(), browser.copy(another)
        assert [await one.is_in() for one in (browser, here, there)] == [True] * 3
        answer = await browser.post("/console/sign-out", form_token=await browser.token())
        assert (answer.header("location"), browser.jar) == ("/console/sign-in", {})
        assert [await one.is_in() for one in (here, there)] == [False] * 2
    [record] = await process.audited("console_session.close")
    assert record["details"]["reason"] == "signed out"
    assert record["principal"].startswith("key:")


async def test_one_of_several_sessions_is_ended_on_the_page_and_the_others_go_on(process: Process) -> None:
    secret = await key(process, "execution:read")
    here, there = Browser(process), Browser(process)
    for browser in (here, there):
        await browser.sign_in(secret)
    page = (await here.get()).body
    assert page.count("Firefox on Linux") == 2 + 2  # in the row, and in the name of its button
    assert page.count("(this one)") == 1
    assert "192.0.2.7" in page
    [own, other] = await here.sessions()
    if f'value="{other}"' in page.partition("(this one)")[2].partition("</tr>")[0]:
        own, other = other, own
    answer = await here.post("/console/sessions", session_id=other, form_token=await here.token())
    assert answer.status == 303
    assert (await here.is_in(), await there.is_in()) == (True, False)
    [record] = await process.audited("console_session.end")
    assert (record["subject"], record["details"]["reason"]) == (other, "ended")
    await here.post("/console/sessions", session_id=own, form_token=await here.token())
    assert not await here.is_in()


async def test_a_cookie_is_replaced_and_the_one_before_counts_for_requests_on_their_way(
    provider: Provider, process: Process
) -> None:
    browser = await signed_in(process)
    provider.clock.advance(TURN - 1)
    before = dict(browser.jar)
    assert await browser.is_in()
    assert browser.jar == before
    provider.clock.advance(1)
    late = browser.copy()
    token = await browser.token()
    assert browser.jar != before
    assert await browser.is_in()  # with the next one
    assert late.jar == before
    provider.clock.advance(GRACE)
    assert await late.is_in()
    assert late.jar == before  # it is not given the next one any more
    assert await browser.token() == token  # forms that are open stay valid
    [record] = await process.audited("console_session.renew")
    assert record["details"]["change"] == "cookie replaced"


async def test_an_older_cookie_that_comes_again_ends_the_session_and_is_on_record(
    provider: Provider, process: Process
) -> None:
    browser = await signed_in(process)
    thief = browser.copy()
    provider.clock.advance(TURN)
    await browser.get()
    await browser.get()
    provider.clock.advance(GRACE + 1)
    assert not await thief.is_in()
    assert not await browser.is_in()  # nobody can tell who of them is the thief
    [record] = await process.audited("console_session.close")
    assert record["details"]["reason"] == "an older cookie was used again"
    assert (record["principal"], record["remote"]) == ("system:console", "203.0.113.9")


async def test_a_thief_who_is_faster_is_noticed_when_the_owner_comes_back(provider: Provider, process: Process) -> None:
    browser = await signed_in(process)
    thief = browser.copy()
    provider.clock.advance(TURN)
    await thief.get()
    assert await thief.is_in()
    provider.clock.advance(GRACE + 1)
    assert not await browser.is_in()
    assert not await thief.is_in()


async def test_a_cookie_that_was_lost_on_its_way_does_no_harm(provider: Provider, process: Process) -> None:
    browser = await signed_in(process)
    for _ in range(5):
        provider.clock.advance(HOUR)
        assert await browser.copy().is_in()  # what it is given never arrives
    assert await browser.is_in()


async def test_a_session_ends_when_it_is_not_used_and_at_the_latest_after_a_week(
    provider: Provider, process: Process
) -> None:
    idle, busy = await signed_in(process), await signed_in(process)
    for _ in range(7 * 24 - 1):
        provider.clock.advance(HOUR)
        await busy.get()
        assert await busy.is_in()
    assert not await idle.is_in()
    provider.clock.advance(HOUR)
    assert not await busy.is_in()


async def test_signing_in_again_ends_the_session_that_the_browser_had_and_takes_no_id_of_a_stranger(
    process: Process,
) -> None:
    attacker = await signed_in(process)
    victim = Browser(process, dict(attacker.jar))
    await victim.sign_in(await key(process, "execution:read"))
    assert victim.jar != attacker.jar
    assert await victim.is_in()
    assert not await attacker.is_in()


async def test_a_cookie_that_was_changed_or_is_of_another_tenant_is_nothing(process: Process) -> None:
    browser = await signed_in(process)
    for place in (0, 20, 40, -5):
        changed = browser.copy()
        text = changed.jar[COOKIE]
        changed.jar[COOKIE] = f"{text[:place]}{'A' if text[place] != 'A' else 'B'}{text[place:][1:]}"
        assert not await changed.is_in()
    other = Browser(process)
    await other.sign_in(await key(process, "execution:read", "key:read", "key:write", tenant="globex"))
    assert await browser.is_in()
    [own] = await browser.sessions()
    refused = await other.post("/console/sessions", session_id=own, form_token=await other.token())
    assert (refused.status, "you have no session" in refused.body) == (404, True)
    assert own not in (await other.get("/console/sessions?everybody=1")).body
    assert await browser.is_in()


async def test_a_form_of_another_session_is_kept_and_not_sent(process: Process) -> None:
    one, other = await signed_in(process), await signed_in(process)
    [own] = await one.sessions()
    kept = await one.post("/console/sessions", session_id=own, form_token=await other.token())
    assert (kept.status, "Not sent yet" in kept.body) == (403, True)
    assert await one.is_in()


async def test_a_session_of_a_one_time_link_ends_with_its_process(
    tmp_path: Path, provider: Provider, process: Process
) -> None:
    browser = Browser(process)
    answer = await browser.get(process.links.path(provider.clock.now_ms()))
    assert answer.status == 303
    assert "one-time link" in (await browser.get()).body
    async with a_process(tmp_path, provider) as another:
        assert not await browser.copy(another).is_in()


async def test_a_key_that_is_revoked_or_expires_ends_its_sessions(provider: Provider, process: Process) -> None:
    revoked, expires = await signed_in(process), Browser(process)
    await expires.sign_in(await key(process, "execution:read", expires_in="5m"))
    [listed] = [item for item in (await process.owner.call("key.list"))["items"] if item["expires_at"] is None]
    await process.owner.call("key.revoke", key_id=listed["id"])
    assert (await revoked.is_in(), await expires.is_in()) == (False, True)
    provider.clock.advance(5 * MINUTE)
    assert not await expires.is_in()
    assert (await process.owner.call("console_session.list", everybody=True))["items"] == []


async def test_what_was_written_is_kept_when_the_session_is_ended_from_elsewhere(process: Process) -> None:
    browser = await signed_in(process)
    token = await browser.token()
    [own] = await browser.sessions()
    await process.owner.call("console_session.end", console_session_id=own)
    kept = await browser.post("/console/keys", name="written <b>", form_token=token)
    assert (kept.status, "You are signed out" in kept.body, "written &lt;b&gt;" in kept.body) == (403, True, True)
