"""An issuer ends sessions with a logout token, and nobody else does: forged, stale and repeated tokens are refused."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from penstock.base import limits
from penstock.runtime.tables.resources import list_all_resources
from tests.issuers import LOGOUT_EVENT, Issuer, base64url, signing_key
from tests.unit.console.sessions.browsing import MINUTE, Answer, Browser, Process, Provider, a_process

pytestmark = pytest.mark.anyio
ADDRESS = "/console/back-channel-logout/company"


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
async def process(tmp_path: Path, provider: Provider) -> AsyncIterator[Process]:
    async with a_process(tmp_path, provider) as running:
        yield running


async def send(process: Process, token: str, address: str = ADDRESS, remote: str = "198.51.100.1") -> Answer:
    return await Browser(process, remote=remote).post(address, logout_token=token)


async def signed_in(process: Process, provider: Provider, sid: str | None = "one", sub: str = "ada") -> Browser:
    provider.id_claims, provider.claims = {"sid": sid, "sub": sub}, {"sub": sub}
    browser = Browser(process)
    await browser.sign_in_at(provider)
    return browser


async def test_the_session_of_a_sign_in_ends_and_others_go_on(provider: Provider, process: Process) -> None:
    one, two = await signed_in(process, provider, "one"), await signed_in(process, provider, "two")
    answer = await send(process, provider.logout_token(sid="one", sub="ada"))
    assert (answer.status, answer.body, answer.header("cache-control")) == (200, "", "no-store")
    assert (await one.is_in(), await two.is_in()) == (False, True)
    [closed] = await process.audited("console_session.close")
    assert (closed["details"]["reason"], closed["remote"]) == ("signed out at the issuer", "198.51.100.1")
    [noted] = await process.audited("console_session.note_logout")
    assert (noted["details"]["issuer"], noted["details"]["ended"]) == ("company", 1)
    assert (await send(process, provider.logout_token(sid="two", sub=None))).status == 200
    assert not await two.is_in()


async def test_all_sessions_of_a_person_end_and_those_of_others_go_on(provider: Provider, process: Process) -> None:
    theirs = [await signed_in(process, provider, sid) for sid in ("one", "two", None)]
    other = await signed_in(process, provider, "three", sub="grace")
    assert (await send(process, provider.logout_token(sub="ada"))).status == 200
    assert [await browser.is_in() for browser in theirs] == [False, False, False]
    assert await other.is_in()
    assert (await send(process, provider.logout_token(sub="nobody"))).status == 200  # nothing is left to do


async def test_a_session_without_a_name_ends_with_any_sign_in_of_the_person(
    provider: Provider, process: Process
) -> None:
    nameless = await signed_in(process, provider, None)
    assert (await send(process, provider.logout_token(sid="one", sub=None))).status == 200
    assert await nameless.is_in()
    assert (await send(process, provider.logout_token(sid="one", sub="grace"))).status == 200
    assert await nameless.is_in()
    assert (await send(process, provider.logout_token(sid="one", sub="ada"))).status == 200
    assert not await nameless.is_in()


def forged(provider: Provider) -> dict[str, tuple[str, str]]:
    """Tokens that must be refused, by what is wrong with them, and what is said about it."""
    issuer, now = provider.issuers[0], provider.clock.now_ms() // 1000
    token = provider.logout_token
    head, body, signature = token().split(".")
    none = base64url(json.dumps({"alg": "none", "typ": "logout+jwt"}).encode())
    public = issuer.keys["company-RS256"].as_pem(private=False)
    stranger = Issuer(name="company", url="https://evil.example")
    old = now - limits.LOGOUT_TOKEN_AGE_SECONDS_MAX - limits.TOKEN_LEEWAY_SECONDS - 1
    access = issuer.token(iat=now, exp=now + 300)
    id_token = issuer.token(aud="console", nonce="n", iat=now, exp=now + 300, header={"typ": "JWT"})
    return {
        "not signed": (f"{none}.{body}.", "base64url"),
        "not signed, with a signature": (f"{none}.{body}.{signature}", "algorithm"),
        "a shared secret": (token(header={"alg": "HS256"}, key=public), "algorithm"),
        "another key": (token(key=signing_key("RS256", "impostor")), "not signed"),
        "an unknown key": (token(header={"kid": "unknown"}), "not signed"),
        "changed": (f"{head}.{base64url(json.dumps({'sub': 'ada'}).encode())}.{signature}", "not signed"),
        "another issuer": (stranger.logout_token(aud="console", iat=now, exp=now + 60), "not signed"),
        "another issuer's name": (token(iss="https://evil.example"), "not signed"),
        "another audience": (token(aud="another"), "audience"),
        "no audience": (token(aud=None), "`aud`"),
        "expired": (token(exp=now - limits.TOKEN_LEEWAY_SECONDS - 1), "expired"),
        "no expiry": (token(exp=None), "expires"),
        "issued in the future": (token(iat=now + limits.TOKEN_LEEWAY_SECONDS + 5), "future"),
        "issued long ago": (token(iat=old), "too long ago"),
        "no time of issue": (token(iat=None), "`iat`"),
        "a time that is none": (token(iat="now"), "`iat`"),
        "no events": (token(events=None), "`events`"),
        "another event": (token(events={"https://example.com/event": {}}), "`events`"),
        "an event that is no object": (token(events={LOGOUT_EVENT: True}), "`events`"),
        "events that are a list": (token(events=[LOGOUT_EVENT]), "`events`"),
        "a nonce": (token(nonce="n"), "`nonce`"),
        "nobody": (token(sub=None), "`sub`"),
        "a subject that is no text": (token(sub=7), "`sub`"),
        "an empty session": (token(sid=""), "`sid`"),
        "no id": (token(jti=None), "`jti`"),
        "a long id": (token(jti="j" * 300), "`jti`"),
        "an access token": (access, "`typ`"),
        "an ID token": (id_token, "`events`"),
        "a header that brings its key": (token(header={"jwk": {}}), "`jwk`"),
        "a token inside": (token(header={"cty": "JWT"}), "another token"),
        "too long": (token(more="x" * limits.TOKEN_CHARACTERS_MAX), "logout_token"),
        "no token": ("a.b", "three parts"),
    }


async def test_forged_tokens_of_every_kind_end_nothing(provider: Provider, process: Process) -> None:
    browser = await signed_in(process, provider)
    for number, (name, (token, said)) in enumerate(forged(provider).items()):
        answer = await send(process, token, remote=f"198.51.100.{number + 1}")
        told: dict[str, Any] = json.loads(answer.body)
        assert (answer.status, told["error"]) == (400, "invalid_request"), name
        if name == "too long":
            assert "bytes" in told["error_description"]
        else:
            assert said in told["error_description"], (name, told)
    assert await browser.is_in()
    assert await process.audited("console_session.note_logout") == []


async def test_a_token_counts_once_in_all_processes_and_is_forgotten_when_it_is_too_old(
    tmp_path: Path, provider: Provider, process: Process
) -> None:
    token = provider.logout_token(sub="ada")
    assert (await send(process, token)).status == 200
    browser = await signed_in(process, provider)
    assert "`jti`" in (await send(process, token)).body
    async with a_process(tmp_path, provider) as another:
        assert (await send(another, token)).status == 400
        assert await browser.is_in()
        provider.clock.advance(limits.LOGOUT_NOTED_MS + MINUTE)
        assert (await send(another, provider.logout_token(sub="nobody"))).status == 200
        assert (await send(another, token)).status == 400  # by its age
        assert len(await list_all_resources(another.gate.services.platform, "console_logout")) == 1


async def test_only_a_form_with_one_token_is_taken_where_the_settings_say_so(
    tmp_path: Path, provider: Provider, process: Process
) -> None:
    browser = Browser(process)
    assert (await browser.get(ADDRESS)).status == 400
    assert (await browser.post(ADDRESS, other="x")).status == 400
    assert (await browser.post("/console/back-channel-logout/unknown", logout_token="x")).status == 404
    provider.takes_logouts = False
    async with a_process(tmp_path, provider) as closed:
        assert (await send(closed, provider.logout_token())).status == 404


async def test_who_sends_many_tokens_that_do_not_count_has_to_wait(provider: Provider, process: Process) -> None:
    for _ in range(limits.CONSOLE_FAILED_SIGN_INS_PER_ADDRESS_PER_MINUTE):
        assert (await send(process, "a.b.c")).status == 400
    limited = await send(process, provider.logout_token())
    assert (limited.status, int(limited.header("retry-after")) > 0) == (429, True)
    assert (await send(process, provider.logout_token(), remote="203.0.113.50")).status == 200
    assert (await Browser(process, remote="198.51.100.1").get("/console/sign-in")).status == 200


async def test_an_issuer_whose_keys_cannot_be_read_is_asked_to_try_again(tmp_path: Path) -> None:
    provider = Provider(is_down=True)
    async with a_process(tmp_path, provider) as process:
        assert (await send(process, provider.logout_token())).status == 503
