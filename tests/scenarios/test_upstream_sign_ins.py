"""Signing in to other MCP servers: a real authorization server and a real protected server, behind the gate."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from penstock.app.executors.configured import open_executors
from penstock.app.gate import local_owner, open_gate
from penstock.app.penstock import Penstock
from penstock.app.settings.model import HttpSettings, Settings
from penstock.app.settings.named import McpServerSettings
from penstock.app.settings.secrets import EnvironmentReference, FileReference
from penstock.app.settings.upstream_auth import OAuthSettings
from penstock.base.errors import Conflict, NotFound, PenstockError, Rejected
from penstock.base.json import JsonObject
from penstock.operations.gate.internal_callers import internal_call
from penstock.operations.gate.pipeline import Gate
from penstock.runtime.activities.performing import ActivityOutcome
from tests.fixtures.oauth_server import OAuthWorld, serving_oauth
from tests.unit.runtime.executors.calls import call_of, done, error

pytestmark = pytest.mark.anyio
REDIRECT = "http://127.0.0.1:3000/callback"
PLANTED = ("planted-access", "planted-refresh", "planted-code")


@dataclass
class Client:
    """A process of ours."""

    gate: Gate
    executor: Any
    folder: Path

    async def ask(self, operation: str, tenant: str = "default", **arguments: Any) -> Any:
        return await internal_call(self.gate, local_owner(tenant), operation, arguments, surface="cli")

    async def call(self, tool: str = "add", **arguments: Any) -> ActivityOutcome:
        given: JsonObject = arguments or {"a": 2, "b": 3}
        node: JsonObject = {"server": "shop", "tool": tool}
        outcome: ActivityOutcome = await self.executor.perform(call_of("tool_call", node, given, timeout_ms=60_000))
        return outcome

    async def begin(self, **more: Any) -> dict[str, str]:
        """Begin a sign-in and send the person there; gives what they come back with."""
        begun = await self.ask("upstream.begin_sign_in", server="shop", redirect_uri=REDIRECT, **more)
        async with httpx2.AsyncClient() as browser:
            page = await browser.get(begun.authorization_url)
        return {name: values[0] for name, values in parse_qs(urlsplit(page.headers["location"]).query).items()}

    async def sign_in(self, **more: Any) -> Any:
        return await self.ask("upstream.complete_sign_in", server="shop", **await self.begin(**more))


@asynccontextmanager
async def client_of(
    world: OAuthWorld, folder: Path, auth: OAuthSettings | None = None, *, url: str | None = None, private: bool = False
) -> AsyncIterator[Client]:
    server = McpServerSettings(url=url or world.url, auth=auth or OAuthSettings())
    settings = Settings(mcp_servers={"shop": server}, http=HttpSettings(allow_private=private))
    async with (
        open_executors(settings) as equipment,
        Penstock.open(folder / "store.db", upstream=equipment.upstream, perform=False) as penstock,
        open_gate(penstock) as gate,
    ):
        yield Client(gate, equipment.executors["tool_call"], folder)


@asynccontextmanager
async def signed_in(world: OAuthWorld, folder: Path, auth: OAuthSettings | None = None) -> AsyncIterator[Client]:
    async with client_of(world, folder, auth) as client:
        await client.call()
        await client.sign_in()
        yield client


def contents(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir())


def is_ours(logger: str) -> bool:
    return logger.startswith(("penstock", "mcp.client"))


async def test_a_call_says_that_somebody_has_to_sign_in_and_works_when_they_have(tmp_path: Path) -> None:
    async with serving_oauth() as world, client_of(world, tmp_path) as client:
        refused = error(await client.call())
        assert (refused.code, refused.retryable) == ("UPSTREAM_SIGN_IN_REQUIRED", False)
        assert "penstock tool upstream sign-in shop" in refused.error
        status = await client.sign_in()
        assert (status.status, status.issuer, status.scopes) == ("signed_in", world.address, ["tools:call"])
        assert json.loads(json.dumps(done(await client.call())))["sum"] == 5
        (asked,) = world.requests("authorize")
        assert (asked["code_challenge_method"], asked["resource"]) == ("S256", world.url)
        listed = (await client.ask("upstream.list")).items
        assert [(item.server, item.sign_in.status, item.sign_in.renews) for item in listed] == [
            ("shop", "signed_in", True)
        ]


async def test_a_sign_in_can_begin_before_any_call(tmp_path: Path) -> None:
    async with serving_oauth() as world, client_of(world, tmp_path) as client:
        await client.sign_in()
        done(await client.call())


async def test_tokens_survive_a_restart_and_are_nowhere_in_clear(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with serving_oauth() as world:
        async with signed_in(world, tmp_path) as client:
            done(await client.call())
            records = (await client.ask("audit.list", limit=100)).items
            assert {"upstream.begin_sign_in", "upstream.complete_sign_in"} <= {item.operation for item in records}
        async with client_of(world, tmp_path) as client:
            done(await client.call())
    stored, told = contents(tmp_path), [record.getMessage() for record in caplog.records if is_ours(record.name)]
    assert b'{"sealed":' in stored
    for planted in PLANTED:
        assert planted.encode() not in stored
        assert not any(planted in message for message in told)


async def test_parallel_calls_renew_an_expired_token_once(tmp_path: Path) -> None:
    async with serving_oauth(OAuthWorld(lifetime_seconds=1)) as world, signed_in(world, tmp_path) as client:
        world.lifetime_seconds = 3600
        outcomes = await asyncio.gather(*(client.call() for _ in range(8)))
        assert all(done(outcome) for outcome in outcomes)
        assert world.grants("refresh_token") == 1
        changes = [item.details.get("change") for item in (await client.ask("audit.list", limit=100)).items]
        assert changes.count("refreshed") == 1


async def test_two_processes_renew_a_token_that_works_once_only_once(tmp_path: Path) -> None:
    async with serving_oauth(OAuthWorld(lifetime_seconds=1)) as world, signed_in(world, tmp_path) as first:
        world.lifetime_seconds = 3600
        async with client_of(world, tmp_path) as second:
            outcomes = await asyncio.gather(*(one.call() for one in (first, second, first, second)))
        assert all(done(outcome) for outcome in outcomes)
        assert world.grants("refresh_token") == 1


async def test_a_refused_token_is_renewed_and_rotated(tmp_path: Path) -> None:
    async with serving_oauth() as world, signed_in(world, tmp_path) as client:
        for turn in (1, 2):
            world.forget_access()
            done(await client.call())
            assert world.grants("refresh_token") == turn


async def test_a_failed_renewal_needs_a_person_and_is_remembered(tmp_path: Path) -> None:
    async with serving_oauth() as world, signed_in(world, tmp_path) as client:
        world.forget_access()
        world.refresh.clear()
        refused = error(await client.call())
        assert refused.code == "UPSTREAM_SIGN_IN_REQUIRED"
        assert not any(planted in refused.error for planted in PLANTED)
        assert (await client.ask("upstream.list")).items[0].sign_in.status == "required"
        error(await client.call())
        assert world.grants("refresh_token") == 1
        await client.sign_in()
        done(await client.call())


async def test_an_authorization_server_in_trouble_is_tried_again_later(tmp_path: Path) -> None:
    async with serving_oauth() as world, signed_in(world, tmp_path) as client:
        world.forget_access()
        world.token_status = 503
        refused = error(await client.call())
        assert (refused.code, refused.retryable) == ("UPSTREAM_AUTHORIZATION_UNAVAILABLE", True)
        world.token_status = None
        done(await client.call())


async def test_more_scopes_need_a_person_who_is_asked_for_all_of_them(tmp_path: Path) -> None:
    async with serving_oauth() as world, signed_in(world, tmp_path) as client:
        world.scope = "tools:write"
        refused = error(await client.call())
        assert refused.code == "UPSTREAM_SIGN_IN_REQUIRED"
        assert "penstock tool upstream sign-in shop --scopes tools:write" in refused.error
        await client.sign_in(scopes=["tools:write"])
        assert world.requests("authorize")[-1]["scope"].split() == ["tools:call", "tools:write"]
        done(await client.call())


async def test_a_server_that_always_wants_more_is_not_signed_in_to_again_and_again(tmp_path: Path) -> None:
    async with serving_oauth() as world, signed_in(world, tmp_path) as client:
        world.access = dict.fromkeys(world.access, "nothing")
        assert error(await client.call()).code == "UPSTREAM_AUTHORIZATION_FAILED"


async def test_signing_out_deletes_and_revokes(tmp_path: Path) -> None:
    async with serving_oauth() as world, signed_in(world, tmp_path) as client:
        await client.ask("upstream.sign_out", server="shop")
        assert [text.rpartition("-")[0] for text in world.revoked] == ["planted-refresh", "planted-access"]
        assert error(await client.call()).code == "UPSTREAM_SIGN_IN_REQUIRED"
        assert (await client.ask("upstream.list")).items[0].sign_in.status == "required"


async def refusal_of(client: Client, answer: dict[str, str]) -> str:
    with pytest.raises(PenstockError) as caught:
        await client.ask("upstream.complete_sign_in", server="shop", **answer)
    assert not any(planted in str(caught.value) for planted in PLANTED)
    return caught.value.code


async def test_an_answer_that_does_not_belong_to_the_sign_in_is_refused_before_any_exchange(tmp_path: Path) -> None:
    async with serving_oauth() as world, client_of(world, tmp_path) as client:
        answer = await client.begin()
        assert await refusal_of(client, {**answer, "state": "another"}) == "SIGN_IN_NOT_FOUND"
        assert await refusal_of(client, {**answer, "iss": "https://evil.example"}) == "UPSTREAM_AUTHORIZATION_FAILED"
        missing = {name: value for name, value in answer.items() if name != "iss"}
        assert await refusal_of(client, missing) == "UPSTREAM_AUTHORIZATION_FAILED"
        denied = {"state": answer["state"], "iss": answer["iss"], "error": "access_denied"}
        assert await refusal_of(client, denied) == "UPSTREAM_SIGN_IN_REFUSED"
        assert world.requests("token") == []
        await client.ask("upstream.complete_sign_in", server="shop", **answer)
        assert await refusal_of(client, answer) == "SIGN_IN_NOT_FOUND"  # once only


async def test_only_the_operator_signs_in_and_only_to_come_back_to_their_own_machine(tmp_path: Path) -> None:
    async with serving_oauth() as world, client_of(world, tmp_path) as client:
        with pytest.raises(NotFound):
            await client.ask("upstream.begin_sign_in", tenant="acme", server="shop", redirect_uri=REDIRECT)
        assert (await client.ask("upstream.list", tenant="acme")).items == []
        for address in (
            "https://evil.example/callback",
            "http://evil.example:80/",
            "http://127.0.0.1@evil.example:80/",
            "http://127.0.0.1/",
            "http://127.0.0.1:99999/",
        ):
            with pytest.raises(Rejected):
                await client.ask("upstream.begin_sign_in", server="shop", redirect_uri=address)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"issuer": "https://evil.example"}, "UPSTREAM_AUTHORIZATION_FAILED"),
        ({"code_challenge_methods_supported": ["plain"]}, "UPSTREAM_AUTHORIZATION_FAILED"),
        ({"code_challenge_methods_supported": None}, "UPSTREAM_AUTHORIZATION_FAILED"),
        ({"token_endpoint": "http://as.example/token"}, "UPSTREAM_AUTHORIZATION_FAILED"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "UPSTREAM_AUTHORIZATION_FAILED"),
        ({"registration_endpoint": None}, "UPSTREAM_AUTHORIZATION_FAILED"),
        ({"registration_endpoint": "https://169.254.169.254/register"}, "UPSTREAM_AUTHORIZATION_FAILED"),
    ],
)
async def test_an_authorization_server_that_is_not_sound_is_not_used(
    tmp_path: Path, change: dict[str, Any], code: str
) -> None:
    world = OAuthWorld(metadata=change)
    async with serving_oauth(world), client_of(world, tmp_path) as client:
        with pytest.raises(Conflict) as caught:
            await client.begin()
        assert caught.value.code == code
        assert world.requests("authorize") == []


@pytest.mark.parametrize(
    "address", ["http://169.254.169.254/latest", "https://10.0.0.1/x", "https://[::1]:1/x", "file:///etc/passwd"]
)
async def test_documents_of_a_server_lead_to_no_private_address(tmp_path: Path, address: str) -> None:
    world = OAuthWorld(challenge_url=address)
    async with serving_oauth(world), client_of(world, tmp_path) as client:
        await client.call()
        with pytest.raises(Conflict) as caught:
            await client.begin()
        assert caught.value.code == "UPSTREAM_AUTHORIZATION_FAILED"


async def test_metadata_of_another_resource_are_refused(tmp_path: Path) -> None:
    world = OAuthWorld(resource_metadata={"resource": "https://other.example/mcp"})
    async with serving_oauth(world), client_of(world, tmp_path) as client:
        with pytest.raises(Conflict, match=r"other\.example"):
            await client.begin()


async def test_a_token_is_not_sent_to_another_server_of_the_same_name(tmp_path: Path) -> None:
    async with serving_oauth() as world, serving_oauth() as other:
        async with signed_in(world, tmp_path) as client:
            done(await client.call())
        async with client_of(other, tmp_path) as client:
            assert error(await client.call()).code == "UPSTREAM_SIGN_IN_REQUIRED"
        assert {given["bearer"] for given in other.requests("unauthorized")} == {""}


async def test_the_address_of_a_metadata_document_is_our_client_id(tmp_path: Path) -> None:
    document = "https://penstock.example/oauth/client.json"
    async with serving_oauth() as world, signed_in(world, tmp_path, OAuthSettings(client_metadata_url=document)):
        assert world.requests("authorize")[0]["client_id"] == document
        assert world.requests("register") == []


async def test_client_credentials_with_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_SECRET", "planted-secret")
    async with serving_oauth(OAuthWorld(lifetime_seconds=1)) as world:
        auth = OAuthSettings(
            grant="client_credentials",
            client_id="us",
            client_secret=EnvironmentReference("SHOP_SECRET"),
            issuer=world.address,
        )
        async with client_of(world, tmp_path, auth) as client:
            done(await client.call())
            assert world.requests("token")[0]["authorization"].startswith("Basic ")
            world.lifetime_seconds = 3600
            assert all(done(outcome) for outcome in await asyncio.gather(*(client.call() for _ in range(5))))
            assert world.grants("client_credentials") <= 1 + 3  # each request of the first session may find it expired
            before = world.grants("client_credentials")
            world.forget_access()
            assert all(done(outcome) for outcome in await asyncio.gather(*(client.call() for _ in range(5))))
            assert world.grants("client_credentials") == before + 1
            world.scope = "tools:write"
            done(await client.call())
            assert world.requests("token")[-1]["scope"].split() == ["tools:call", "tools:write"]
            with pytest.raises(Conflict) as caught:
                await client.begin()
            assert caught.value.code == "UPSTREAM_SIGN_IN_NOT_NEEDED"


async def test_client_credentials_with_a_private_key(tmp_path: Path) -> None:
    key = generate_private_key(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file = tmp_path / "key.pem"
    file.write_bytes(key)
    file.chmod(0o600)
    async with serving_oauth() as world:
        auth = OAuthSettings(
            grant="client_credentials", client_id="us", private_key=FileReference(str(file)), issuer=world.address
        )
        async with client_of(world, tmp_path, auth) as client:
            done(await client.call())
        (asked,) = world.requests("token")
        assert asked["client_assertion_type"] == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
        assert asked["client_assertion"].count(".") == 2


async def test_a_secret_is_sent_to_the_configured_issuer_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_SECRET", "planted-secret")
    async with serving_oauth() as world, serving_oauth() as evil:
        world.resource_metadata = {"authorization_servers": [evil.address]}
        auth = OAuthSettings(
            grant="client_credentials",
            client_id="us",
            client_secret=EnvironmentReference("SHOP_SECRET"),
            issuer=world.address,
        )
        async with client_of(world, tmp_path, auth) as client:
            assert error(await client.call()).code == "UPSTREAM_AUTHORIZATION_FAILED"
        assert world.requests("token") == evil.requests("token") == []
