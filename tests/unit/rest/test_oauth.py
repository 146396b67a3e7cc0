"""Access tokens over HTTP: where to sign in, how a request without a good token is answered, what a good one may do."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.agent_profile.surface import AgentProfileOptions
from penstock.app.serving.server import ServerOptions
from penstock.operations.gate.tokens.protected_resource import BASIC_SCOPES
from tests.issuers import AUDIENCE, PUBLIC_URL, Issuer, IssuerDirectory, hostile_tokens
from tests.unit.rest.conftest import HELLO, Answered, Client, opened

pytestmark = pytest.mark.anyio

METADATA = "/.well-known/oauth-protected-resource"
ISSUER = Issuer()
_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}


def options() -> ServerOptions:
    return ServerOptions(
        tokens=IssuerDirectory([ISSUER]).choices(), agent_profile=AgentProfileOptions(enabled=True, fixtures=True)
    )


async def test_the_metadata_is_at_the_inserted_path_and_at_the_root(tmp_path: Path) -> None:
    async with opened(tmp_path, options()) as client:
        for path in (f"{METADATA}/mcp", METADATA):
            answer = await client("GET", path, key="")
            assert answer.status == 200
            found = answer.json()
            assert found["resource"] == AUDIENCE
            assert found["authorization_servers"] == [ISSUER.url]
            assert found["bearer_methods_supported"] == ["header"]
            assert found["scopes_supported"] == list(BASIC_SCOPES)


async def test_without_issuers_there_is_no_metadata_and_no_word_of_it(tmp_path: Path) -> None:
    async with opened(tmp_path, ServerOptions()) as client:
        assert (await client("GET", METADATA, key="")).status == 404
        refused = await client("GET", "workflows", key="")
        assert refused.status == 401
        assert refused.headers["www-authenticate"] == 'Bearer realm="penstock"'


OPENWOP = "/v1/runs/some-run"
PATHS = ["workflows", "/mcp", "/metrics", OPENWOP, "/v1/mcp", "/api/agent/v1/manifest", "/api/agent-admin/v1/apps"]


@pytest.mark.parametrize("path", PATHS)
async def test_a_request_without_a_token_is_told_where_to_sign_in(tmp_path: Path, path: str) -> None:
    async with opened(tmp_path, options()) as client:
        refused = await client("GET", path, key="", headers={"host": "localhost"})
        assert refused.status == 401
        challenge = refused.headers["www-authenticate"]
        assert f'resource_metadata="{PUBLIC_URL}{METADATA}/mcp"' in challenge
        assert 'scope="workflow:read workflow:run execution:read execution:write execution:control"' in challenge
        assert "error=" not in challenge
        wrong = await client("GET", path, key="x.y.z", headers={"host": "localhost"})
        assert wrong.status == 401
        assert 'error="invalid_token"' in wrong.headers["www-authenticate"]


@pytest.mark.parametrize("issued", [True, False])
async def test_every_surface_gives_the_same_challenge(tmp_path: Path, issued: bool) -> None:
    profile = AgentProfileOptions(enabled=True)
    async with opened(tmp_path, options() if issued else ServerOptions(agent_profile=profile)) as client:
        for key in ("", "psk_wrong", *((ISSUER.token(exp=1_700_000_000), "x.y.z") if issued else ())):
            answers = [await client("GET", path, key=key, headers={"host": "localhost"}) for path in PATHS]
            assert {item.status for item in answers} == {401}
            assert len({item.headers["www-authenticate"] for item in answers}) == 1


async def test_tokens_that_are_refused_have_the_codes_of_each_wire(tmp_path: Path) -> None:
    async with opened(tmp_path, options()) as client:
        for token, wire, profile in (
            (ISSUER.token(exp=1_700_000_000), "key_expired", "agent.token_expired"),
            ("x.y.z", "unauthenticated", "agent.token_invalid"),
        ):
            assert (await client("GET", OPENWOP, key=token)).json()["error"] == wire
            assert (await client("GET", "/api/agent/v1/manifest", key=token)).json()["code"] == profile


@pytest.mark.parametrize("kind", sorted(hostile_tokens(ISSUER)))
async def test_a_hostile_token_gets_401_over_rest_and_over_mcp(tmp_path: Path, kind: str) -> None:
    token = hostile_tokens(ISSUER)[kind]
    async with opened(tmp_path, options()) as client:
        for path in ("workflows", "/mcp", OPENWOP):
            refused = await client("GET", path, key=token, headers={"host": "localhost"})
            assert refused.status == 401, (path, refused.body)


async def test_a_token_may_do_what_its_scopes_say_and_is_told_what_is_missing(tmp_path: Path) -> None:
    async with opened(tmp_path, options()) as client:
        token = ISSUER.token(scope="workflow:read")
        assert (await client("GET", "workflows", key=token)).status == 200
        refused = await client("POST", "schedules", {}, key=token)
        assert refused.status == 403
        challenge = refused.headers["www-authenticate"]
        assert 'error="insufficient_scope"' in challenge
        assert f'resource_metadata="{PUBLIC_URL}{METADATA}/mcp"' in challenge
        assert set(challenge.partition('scope="')[2].partition('"')[0].split()) == set(
            refused.json()["details"]["scopes"]
        )


async def test_a_refusal_that_no_scope_would_change_is_no_challenge(tmp_path: Path) -> None:
    async with opened(tmp_path, options()) as client:
        token = ISSUER.token(scope="workflow:run")
        missing = await client("POST", "workflows/nothing/executions", {}, key=token)
        assert missing.status == 404
        assert "www-authenticate" not in missing.headers


@pytest.mark.parametrize("path", ["workflows", "/mcp"])
async def test_a_key_and_a_token_in_one_request_are_refused(tmp_path: Path, path: str) -> None:
    async with opened(tmp_path, options()) as client:
        for first, second in ((client.key, ISSUER.token()), (ISSUER.token(), client.key)):
            refused = await client(
                "GET", path, key=first, headers={"host": "localhost"}, more=[("authorization", f"Bearer {second}")]
            )
            assert refused.status == 400
            assert b"twice" in refused.body
        joined = await client("GET", path, key=f"{client.key}, Bearer {ISSUER.token()}", headers={"host": "localhost"})
        assert joined.status == 401


async def _mcp(client: Client, token: str, method: str, path: str = "/mcp", **params: object) -> Answered:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": _META}}
    headers = {
        "host": "localhost",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": method,
        **({"mcp-name": str(params["name"])} if "name" in params else {}),
    }
    return await client("POST", path, body, key=token, headers=headers)


async def test_a_token_opens_mcp(tmp_path: Path) -> None:
    async with opened(tmp_path, options()) as client:
        assert (await _mcp(client, ISSUER.token(), "server/discover")).status == 200
        assert (await _mcp(client, ISSUER.token(), "tools/list")).status == 200


async def test_a_call_without_its_scopes_over_mcp_is_told_what_to_ask_for(tmp_path: Path) -> None:
    async with opened(tmp_path, options()) as client:
        token, path = ISSUER.token(scope="workflow:read"), "/mcp?toolset=management"
        called = await _mcp(client, token, "tools/call", path, name="penstock_workflow_list", arguments={})
        assert called.status == 200
        for name in ("penstock_workflow_create", "penstock.workflow.create", "workflow.create"):
            refused = await _mcp(client, token, "tools/call", path, name=name, arguments={})
            assert refused.status == 403
            assert refused.json()["error"]["data"]["code"] == "SCOPE_REQUIRED"
            challenge = refused.headers["www-authenticate"]
            assert 'error="insufficient_scope", scope="workflow:write"' in challenge
        records = (await client("GET", "audit?limit=50")).json()["items"]
        assert "SCOPE_REQUIRED" in [item["code"] for item in records if item["principal"] == "token:company:ada"]


@pytest.mark.parametrize("name", ["penstock_key_create", "nothing", "secret_flow", "penstock_workflow_create"])
async def test_what_no_scope_would_show_looks_unknown_over_mcp(tmp_path: Path, name: str) -> None:
    document = {**HELLO, "name": "secret_flow", "expose": {"tool": True}, "governance": {"scopes": ["shop:refund"]}}
    async with opened(tmp_path, options()) as client:
        assert (await client("POST", "workflows", {"document": document})).status == 201
        answered = await _mcp(client, ISSUER.token(), "tools/call", name=name, arguments={})
        assert answered.status != 403
        assert b"Unknown tool" in answered.body


async def test_a_token_without_any_scope_of_ours_is_told_what_to_ask_for(tmp_path: Path) -> None:
    async with opened(tmp_path, options()) as client:
        refused = await _mcp(client, ISSUER.token(scope="*"), "tools/list")
        assert refused.status == 403
        assert (
            'scope="workflow:read workflow:run execution:read execution:write execution:control"'
            in refused.headers["www-authenticate"]
        )
