"""What the doctor says about signing in, link by link."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from penstock.cli.mcp.oauth_checks import check_sign_in
from penstock.cli.terminal.checks import Check
from tests.issuers import Issuer

pytestmark = pytest.mark.anyio

URL = "https://flows.example/mcp"
METADATA = "https://flows.example/.well-known/oauth-protected-resource/mcp"
ROOT = "https://flows.example/.well-known/oauth-protected-resource"
ISSUER = Issuer(url="https://login.example")
CHALLENGE = f'Bearer realm="penstock", resource_metadata="{METADATA}"'
SERVER: dict[str, Any] = {
    "resource": URL,
    "authorization_servers": [ISSUER.url],
    "scopes_supported": ["workflow:run"],
}
ISSUED: dict[str, Any] = {
    **ISSUER.metadata(),
    "authorization_endpoint": f"{ISSUER.url}/auth",
    "token_endpoint": f"{ISSUER.url}/token",
    "code_challenge_methods_supported": ["S256"],
    "client_id_metadata_document_supported": True,
    "token_endpoint_auth_methods_supported": ["none"],
    "scopes_supported": ["openid", "workflow:run"],
}


async def checks(
    server: dict[str, Any] | None = SERVER,
    issued: dict[str, Any] | None = ISSUED,
    keys: dict[str, Any] | None = None,
    challenge: str | None = CHALLENGE,
    at: str = METADATA,
) -> dict[str, Check]:
    pages = {
        at: server,
        f"{ISSUER.url}/.well-known/openid-configuration": issued,
        f"{ISSUER.url}/jwks": ISSUER.key_set() if keys is None else keys,
    }

    def answer(request: httpx2.Request) -> httpx2.Response:
        page = pages.get(str(request.url))
        return httpx2.Response(404) if page is None else httpx2.Response(200, content=json.dumps(page).encode())

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as http:
        return {check.name: check async for check in check_sign_in(http, URL, lambda: challenge)}


async def test_a_chain_that_holds_is_well_from_end_to_end() -> None:
    found = await checks()
    assert {name: check.status for name, check in found.items()} == {
        "resource": "ok",
        "issuer": "ok",
        "keys": "ok",
        "register": "ok",
        "scopes": "ok",
    }


async def test_a_server_with_keys_only_is_not_asked_further() -> None:
    assert await checks(server=None, challenge='Bearer realm="penstock"') == {}


async def test_metadata_that_the_401_does_not_name_is_found_and_reported() -> None:
    for place in (METADATA, ROOT):
        found = await checks(challenge=None, at=place)
        assert found["sign-in"].status == "warn"
        assert found["scopes"].status == "ok"


@pytest.mark.parametrize(
    ("changes", "name", "status", "words"),
    [
        ({"server": None}, "sign-in", "fail", "public_url"),
        ({"server": {**SERVER, "resource": "http://0.0.0.0:5151/mcp"}}, "resource", "fail", "public_url"),
        ({"server": {**SERVER, "authorization_servers": []}}, "resource", "fail", "auth.oauth.issuers"),
        ({"issued": None}, "issuer", "fail", "exactly"),
        ({"issued": {**ISSUED, "issuer": "https://login.example/"}}, "issuer", "fail", "exactly"),
        ({"issued": {**ISSUED, "code_challenge_methods_supported": []}}, "issuer", "fail", "PKCE"),
        ({"issued": {**ISSUED, "authorization_endpoint": None}}, "issuer", "warn", "services"),
        ({"keys": {"keys": []}}, "keys", "fail", "RS256"),
        ({"issued": {**ISSUED, "jwks_uri": None}}, "keys", "warn", "jwks_url"),
        ({"issued": {**ISSUED, "client_id_metadata_document_supported": False}}, "register", "warn", "register"),
        ({"issued": {**ISSUED, "token_endpoint_auth_methods_supported": ["basic"]}}, "register", "warn", "none"),
        ({"issued": {**ISSUED, "scopes_supported": ["openid"]}}, "scopes", "fail", "scope_map"),
        ({"server": {**SERVER, "scopes_supported": []}}, "scopes", "warn", "auth.oauth.scopes"),
    ],
)
async def test_a_broken_link_is_named_with_what_to_do(
    changes: dict[str, Any], name: str, status: str, words: str
) -> None:
    found = (await checks(**changes))[name]
    assert found.status == status
    assert words in str(found.hint)
