"""Who calls is found out once for a request, on every surface; the gate takes that principal and asks nobody again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.app.serving.server import ServerOptions
from penstock.base import limits
from penstock.operations.gate import authentication
from penstock.operations.gate.authentication import Authenticator
from penstock.operations.gate.context import Credentials, Principal
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.platform import AuditQuery, KeyRow
from penstock.runtime.tables.api_keys import read_key
from penstock.runtime.tables.audit.records import list_audit
from tests.unit.rest.conftest import HELLO, Answered, Client, opened
from tests.waiting import SECONDS_MAX

pytestmark = pytest.mark.anyio
TOOL = {**HELLO, "name": "tool", "expose": {"tool": True}}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
MCP = {
    "host": "127.0.0.1",
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": "tools/call",
    "mcp-name": "tool",
}


def called(**more: Any) -> dict[str, Any]:
    params = {"name": "tool", "arguments": {}, **more}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


async def rest_read(client: Client) -> Answered:
    return await client("GET", "workflows")


async def rest_start(client: Client) -> Answered:
    return await client("POST", "workflows/tool/executions", {"input": {}})


async def openwop_start(client: Client) -> Answered:
    # With the tenant, which is compared: two things that need to know who calls.
    return await client("POST", "/v1/runs", {"workflowId": "tool", "inputs": {}, "tenantId": "default"})


async def openwop_mcp(client: Client) -> Answered:
    return await client("POST", "/v1/mcp", called(), headers={"accept": "application/json", "host": "127.0.0.1"})


async def mcp(client: Client) -> Answered:
    return await client("POST", "/mcp", called(_meta=META), headers=MCP)


async def metrics(client: Client) -> Answered:
    return await client("GET", "/metrics")


SURFACES = (rest_read, rest_start, openwop_start, openwop_mcp, mcp, metrics)


class Counted:
    """Counts what is asked for to find out who calls."""

    def __init__(self, client: Client, patch: pytest.MonkeyPatch) -> None:
        self.authentications = self.reads = 0
        authenticate, recognised = Authenticator.authenticate, Authenticator.recognised

        async def counted(authenticator: Authenticator, credentials: Credentials) -> Principal:
            self.authentications += 1
            with patch.context() as within:  # it looks at what is at hand, too
                within.setattr(Authenticator, "recognised", recognised)
                return await authenticate(authenticator, credentials)

        def counted_at_hand(authenticator: Authenticator, credentials: Credentials) -> Principal | None:
            principal = recognised(authenticator, credentials)
            self.authentications += principal is not None
            return principal

        async def read(database: Database, key_id: str) -> KeyRow | None:
            self.reads += 1
            return await read_key(database, key_id)

        patch.setattr(Authenticator, "authenticate", counted)
        patch.setattr(Authenticator, "recognised", counted_at_hand)
        patch.setattr(authentication, "read_key", read)


@pytest.mark.parametrize("ask", SURFACES, ids=lambda ask: ask.__name__)
async def test_a_request_authenticates_once(ask: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The keys of calls in progress are looked at again every now and then, which is not counted here.
    monkeypatch.setattr(limits, "KEY_LOOK_SECONDS", SECONDS_MAX)
    async with opened(tmp_path, ServerOptions()) as client:
        assert (await client("POST", "workflows", {"document": TOOL})).status == 201
        await ask(client)  # loads what is loaded at the first request
        counted = Counted(client, monkeypatch)
        answer = await ask(client)
        assert answer.status in (200, 201, 202), answer
        assert b"UNAUTH" not in answer.body
        assert counted.authentications == 1
        assert counted.reads <= 1


@pytest.mark.parametrize("ask", SURFACES, ids=lambda ask: ask.__name__)
async def test_a_stranger_is_refused_with_one_record(ask: Any, tmp_path: Path) -> None:
    async with opened(tmp_path, ServerOptions()) as client:
        client.key, owner = "pen_no_such_key", client.key
        assert (await ask(client)).status == 401
        client.key = owner
        await client.gate.flush()
        seen = await list_audit(client.gate.services.platform, AuditQuery(tenant="-", limit=10))
        assert [(entry.entry.principal, entry.entry.code, entry.entry.count) for entry in seen.records] == [
            ("anonymous", "UNAUTHENTICATED", 1)
        ]


async def test_nothing_that_a_stranger_sends_is_read(tmp_path: Path) -> None:
    async with opened(tmp_path, ServerOptions()) as client:
        for path in ("workflows/tool/executions", "/v1/runs"):
            answer = await client("POST", path, b"{ this is no JSON", key="pen_no_such_key")
            assert answer.status == 401, path
