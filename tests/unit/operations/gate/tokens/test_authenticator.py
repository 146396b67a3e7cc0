"""Callers with an access token, from the text of the token to a call."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.app.gate import local_owner, open_gate
from penstock.app.penstock import Penstock
from penstock.base import limits
from penstock.base.clock import ManualClock
from penstock.base.errors import Denied, PenstockError, Unavailable
from penstock.operations.gate.context import Credentials, Principal, ServerParts
from penstock.operations.gate.tokens.authenticator import TokenAuthenticator
from penstock.operations.gate.tokens.introspection import Introspection
from penstock.runtime.ports.database import Database
from tests.issuers import AUDIENCE, Issuer, IssuerDirectory, hostile_tokens, signed, signing_key
from tests.opened_database import database_fixture  # noqa: F401
from tests.unit.operations.conftest import Caller

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def opened(folder: Path, directory: IssuerDirectory, **rules: Any) -> AsyncIterator[Caller]:
    async with (
        Penstock.open(folder / "penstock.db") as penstock,
        open_gate(penstock, server=ServerParts(tokens=directory.choices(**rules))) as gate,
    ):
        yield Caller(gate, local_owner(), penstock)


def with_token(caller: Caller, token: str) -> Caller:
    return Caller(caller.gate, Credentials(bearer=token), caller.penstock)


async def refusal(caller: Caller, token: str) -> PenstockError:
    with pytest.raises(PenstockError) as caught:
        await with_token(caller, token).principal()
    return caught.value


async def test_a_token_of_a_trusted_issuer_may_do_what_its_scopes_say(tmp_path: Path) -> None:
    issuer = Issuer()
    async with opened(tmp_path, IssuerDirectory([issuer])) as owner:
        ada = with_token(owner, issuer.token(groups=["support"]))
        found = await ada.principal()
        assert (found.id, found.tenant, found.kind) == ("token:company:ada", "default", "person")
        assert found.groups == {"company.support"}
        await ada.call("workflow.list")
        refused = await ada.refusal("key.list")
        assert refused.code == "SCOPE_REQUIRED"
        assert refused.details["scopes"] == ["key:read"]


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
async def test_every_algorithm_of_an_issuer_is_accepted_and_only_those(tmp_path: Path, algorithm: str) -> None:
    issuer = Issuer()
    async with opened(tmp_path, IssuerDirectory([issuer]), algorithms=frozenset({algorithm})) as owner:
        for used in issuer.algorithms:
            who = with_token(owner, issuer.token(algorithm=used))
            if used == algorithm:
                assert (await who.principal()).id == "token:company:ada"
            else:
                assert (await refusal(owner, issuer.token(algorithm=used))).code == "TOKEN_INVALID"


@pytest.mark.parametrize("kind", sorted(hostile_tokens(Issuer())))
async def test_a_hostile_token_is_refused(tmp_path: Path, kind: str) -> None:
    issuer, partner = Issuer(), Issuer(name="partner", url="https://partner.example")
    token = hostile_tokens(issuer)[kind]
    async with opened(tmp_path, IssuerDirectory([issuer, partner])) as owner:
        assert (await with_token(owner, issuer.token()).principal()).id == "token:company:ada"
        for _ in range(2):
            error = await refusal(owner, token)
            assert isinstance(error, Denied)
            assert error.code in ("TOKEN_INVALID", "TOKEN_EXPIRED")
            assert token not in str(error)
            challenge = error.challenge or ""
            assert 'error="invalid_token"' in challenge
            assert 'resource_metadata="https://flows.example/.well-known/oauth-protected-resource/mcp"' in challenge


async def test_another_issuer_cannot_speak_for_this_one(tmp_path: Path) -> None:
    issuer, partner = Issuer(), Issuer(name="partner", url="https://partner.example")
    async with opened(tmp_path, IssuerDirectory([issuer, partner])) as owner:
        found = await with_token(owner, partner.token(groups=["admin"])).principal()
        assert found.id == "token:partner:ada"
        assert found.groups == {"partner.admin"}
        forged = partner.token(iss=issuer.url)
        assert (await refusal(owner, forged)).code == "TOKEN_INVALID"


async def test_a_key_still_works_beside_tokens_and_a_text_that_is_neither_is_refused(tmp_path: Path) -> None:
    async with opened(tmp_path, IssuerDirectory([Issuer()])) as owner:
        key = await owner.new_caller("workflow:read")
        await key.call("workflow.list")
        for text in ("secret", "pen_x", "a.b.c", "\ud800", "x" * 100_000):
            assert (await refusal(owner, text)).code in ("TOKEN_INVALID", "UNAUTHENTICATED")


async def test_without_issuers_a_token_is_no_credential(tmp_path: Path) -> None:
    async with (
        Penstock.open(tmp_path / "penstock.db") as penstock,
        open_gate(penstock) as gate,
    ):
        error = await refusal(Caller(gate, local_owner(), penstock), Issuer().token())
        assert error.code == "UNAUTHENTICATED"
        # It names no issuer to sign in with, because there is none.
        assert error.challenge == 'Bearer realm="penstock", error="invalid_token"'


def authenticator(
    database: Database, directory: IssuerDirectory, clock: ManualClock, **rules: Any
) -> TokenAuthenticator:
    issuers = [issuer.trusted(**rules) for issuer in directory.issuers]
    return TokenAuthenticator(issuers, directory, database, clock)


def now_clock() -> ManualClock:
    return ManualClock(Issuer().claims()["iat"] * 1000)


async def authenticated(tokens: TokenAuthenticator, token: str) -> Principal:
    return await tokens.authenticate(token, token.encode())


async def test_a_known_token_is_recognised_without_asking_until_it_expires(database: Database, tmp_path: Path) -> None:
    directory, clock = IssuerDirectory([Issuer()]), now_clock()
    tokens, token = authenticator(database, directory, clock), directory.issuers[0].token()
    found = await authenticated(tokens, token)
    asked = len(directory.asked)
    assert tokens.recognised(token.encode(), clock.now_ms()) is found
    assert len(directory.asked) == asked
    clock.elapse(400_000)
    assert tokens.recognised(token.encode(), clock.now_ms()) is None
    with pytest.raises(Denied, match="TOKEN_EXPIRED"):
        await authenticated(tokens, token)


async def test_unknown_key_ids_make_us_ask_at_most_every_half_minute(database: Database) -> None:
    issuer, clock = Issuer(), now_clock()
    directory = IssuerDirectory([issuer])
    tokens = authenticator(database, directory, clock)
    await authenticated(tokens, issuer.token())
    asked = len(directory.asked)
    for number in range(20):
        with pytest.raises(Denied, match="TOKEN_INVALID"):
            await authenticated(tokens, issuer.token(header={"kid": f"unknown-{number}"}))
    assert len(directory.asked) == asked
    clock.elapse(limits.ISSUER_REFETCH_MS)
    for number in range(20):
        with pytest.raises(Denied, match="TOKEN_INVALID"):
            await authenticated(tokens, issuer.token(header={"kid": f"unknown-{number}"}))
    assert directory.asked[asked:].count(f"{issuer.url}/jwks") == 1


async def test_a_new_key_of_the_issuer_is_found_and_a_withdrawn_one_stops_working(database: Database) -> None:
    issuer, clock = Issuer(), now_clock()
    directory = IssuerDirectory([issuer])
    tokens = authenticator(database, directory, clock)
    old = issuer.token(exp=issuer.claims()["iat"] + 10_000)
    await authenticated(tokens, old)
    fresh_key = signing_key("RS256", "the next key")
    issuer.keys = {"next": fresh_key}
    fresh = signed({"alg": "RS256", "typ": "at+jwt", "kid": "next"}, issuer.claims(), fresh_key)
    with pytest.raises(Denied, match="TOKEN_INVALID"):
        await authenticated(tokens, fresh)  # the keys were read a moment ago
    clock.elapse(limits.ISSUER_REFETCH_MS)
    assert (await authenticated(tokens, fresh)).id == "token:company:ada"
    clock.elapse(limits.ISSUER_KEYS_KEPT_MS)
    with pytest.raises(Denied, match="TOKEN_INVALID"):
        await authenticated(tokens, old)


async def test_an_issuer_that_is_down_does_not_lock_out_its_users(database: Database) -> None:
    issuer, clock = Issuer(), now_clock()
    directory = IssuerDirectory([issuer])
    tokens = authenticator(database, directory, clock)
    await authenticated(tokens, issuer.token())
    directory.is_down = True
    clock.elapse(limits.ISSUER_KEYS_KEPT_MS)
    assert (await authenticated(tokens, issuer.token(exp=issuer.claims()["iat"] + 10_000))).name == "ada"


async def test_an_issuer_that_was_never_reached_is_no_reason_to_refuse_for_good(database: Database) -> None:
    issuer, clock = Issuer(), now_clock()
    directory = IssuerDirectory([issuer], is_down=True)
    tokens = authenticator(database, directory, clock)
    with pytest.raises(Unavailable, match="ISSUER_UNAVAILABLE"):
        await authenticated(tokens, issuer.token())
    directory.is_down = False
    clock.elapse(limits.ISSUER_REFETCH_MS)
    assert (await authenticated(tokens, issuer.token())).id == "token:company:ada"


async def test_metadata_of_another_issuer_is_not_believed(database: Database) -> None:
    issuer, clock = Issuer(), now_clock()
    issuer.metadata = lambda: {"issuer": "https://evil.example", "jwks_uri": f"{issuer.url}/jwks"}  # type: ignore[method-assign]
    tokens = authenticator(database, IssuerDirectory([issuer]), clock)
    with pytest.raises(Unavailable):
        await authenticated(tokens, issuer.token())


async def test_an_opaque_token_is_what_its_issuer_says(database: Database) -> None:
    issuer, clock = Issuer(), now_clock()
    asked = Introspection(url="https://login.example/introspect", client_id="penstock", client_secret=lambda: "s")
    claims = {**issuer.claims(), "active": True}
    directory = IssuerDirectory([issuer], tokens={"opaque-1": claims, "opaque-2": {**claims, "aud": "other"}})
    tokens = authenticator(database, directory, clock, introspection=asked)
    found = await authenticated(tokens, "opaque-1")
    assert found.id == "token:company:ada"
    assert directory.asked == ["https://login.example/introspect"]
    assert tokens.recognised(b"opaque-1", clock.now_ms()) is found
    clock.elapse(limits.TOKEN_INTROSPECTION_KEPT_MS)
    directory.tokens["opaque-1"] = {"active": False}
    for token in ("opaque-1", "opaque-2", "unknown"):
        with pytest.raises(Denied, match="TOKEN_INVALID"):
            await authenticated(tokens, token)


async def test_strangers_cannot_make_us_ask_without_end(database: Database) -> None:
    issuer, clock = Issuer(), now_clock()
    asked = Introspection(url="https://login.example/introspect", client_id="penstock", client_secret=lambda: "s")
    directory = IssuerDirectory([issuer])
    tokens = authenticator(database, directory, clock, introspection=asked)
    for number in range(limits.OPAQUE_TOKENS_PER_MINUTE):
        with pytest.raises(Denied):
            await authenticated(tokens, f"opaque-{number}")
    with pytest.raises(PenstockError, match="RATE_LIMITED"):
        await authenticated(tokens, "one-more")
    assert len(directory.asked) == limits.OPAQUE_TOKENS_PER_MINUTE


async def test_a_challenge_names_all_scopes_at_once_in_the_words_of_the_issuer(tmp_path: Path) -> None:
    issuer = Issuer()
    words = {"run": ("workflow:run", "execution:*"), "keys": ("key:*",), "all": ("*",)}
    async with opened(tmp_path, IssuerDirectory([issuer]), scope_map=words) as owner:
        ada = with_token(owner, issuer.token(scope="run other"))
        refused = await ada.refusal("key.list")
        assert 'error="insufficient_scope", scope="keys"' in (refused.challenge or "")
    async with opened(tmp_path, IssuerDirectory([issuer]), scope_map={"run": ("workflow:run",)}) as owner:
        refused = await with_token(owner, issuer.token(scope="run")).refusal("key.list")
        assert refused.code == "SCOPE_REQUIRED"
        assert refused.challenge is None  # no scope of the issuer would help


async def test_a_key_is_never_told_to_sign_in_for_a_scope(tmp_path: Path) -> None:
    async with opened(tmp_path, IssuerDirectory([Issuer()])) as owner:
        key = await owner.new_caller("workflow:read")
        assert (await key.refusal("key.list")).challenge is None


def test_the_audience_is_the_address_of_the_server() -> None:
    protected = IssuerDirectory([Issuer()]).choices().protected
    assert protected.resource == AUDIENCE
    assert protected.document()["resource"] == AUDIENCE
    assert protected.document()["authorization_servers"] == ["https://login.example/company"]
