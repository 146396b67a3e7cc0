"""Two tenants on one server: whatever one asks for, it hears nothing of the other, and the same as of what is not."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.runtime.tables.api_keys import put_key, read_key
from tests.live.mcp.workflows import ASK, GREET
from tests.scenarios.test_mcp_crowds import Line, calling, crowded, modern, new_session, rpc
from tests.unit.rest.conftest import Client
from tests.waiting import until

pytestmark = pytest.mark.anyio
_HEADERS = {"accept": "application/json, text/event-stream", "host": "127.0.0.1"}
HIDDEN: dict[str, Any] = {
    **ASK,
    "name": "hidden",
    "title": "Nobody else's",
    "expose": {
        "tool": {"name": "hidden_tool"},
        "prompt": {"name": "hidden_prompt"},
        "resource": {"uri": "hidden://{order}"},
    },
}


async def key_of(client: Client, tenant: str, *scopes: str) -> str:
    made = await client("POST", "keys", {"name": tenant, "scopes": list(scopes or ("*",)), "tenant": tenant})
    assert made.status == 201, made
    secret: str = made.json()["secret"]
    return secret


async def asked(client: Client, key: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
    headers, body = modern(method, params)
    named = params.get("uri", params.get("taskId"))
    if named is not None:
        headers["mcp-name"] = named
    answer = await client("POST", "/mcp?toolset=management", body, headers={**_HEADERS, **headers}, key=key)
    found: dict[str, Any] = answer.json()
    return found


async def test_nothing_of_a_tenant_is_seen_by_another(tmp_path: Path) -> None:
    async with crowded(tmp_path, toolset="all") as client:
        theirs, ours = await key_of(client, "theirs"), await key_of(client, "ours")
        for key, document in ((theirs, HIDDEN), (ours, GREET)):
            assert (await client("POST", "workflows", {"document": document}, key=key)).status == 201
        begun = await client("POST", "workflows/hidden/executions", {}, key=theirs)
        run = begun.json()["execution_id"]
        # They have what they have, so that it would be found if it could be.
        for method, sign in (("tools/list", "hidden_tool"), ("prompts/list", "hidden_prompt"), ("resources/list", run)):
            assert sign in json.dumps(await asked(client, theirs, method, {}))
            assert "hidden" not in json.dumps(await asked(client, ours, method, {}))
        assert "hidden" not in json.dumps(await asked(client, ours, "resources/templates/list", {}))
        answer = {"inputResponses": {"question": {"action": "accept", "content": {"approved": True}}}}
        runs: tuple[tuple[str, dict[str, Any]], ...] = (
            ("tasks/get", {"taskId": "…"}),
            ("tasks/update", {"taskId": "…", **answer}),
            ("tasks/cancel", {"taskId": "…"}),
            ("resources/read", {"uri": "penstock://executions/…"}),
            ("resources/read", {"uri": "penstock://executions/…/history"}),
            ("resources/read", {"uri": "penstock://executions/…/result"}),
        )
        for method, params in runs:
            await _is_as_unknown(client, ours, method, params, run, "r_01M7H65EC3B2F66505RZFYYK5X")
        names: tuple[tuple[str, dict[str, Any]], ...] = (
            ("tools/call", {"name": "…_tool", "arguments": {}}),
            ("tools/call", {"name": "workflow:…", "arguments": {}}),
            ("tools/call", {"name": "penstock_tools_describe", "arguments": {"name": "…_tool"}}),
            ("tools/call", {"name": "penstock_workflow_get", "arguments": {"workflow_id": "…"}}),
            ("prompts/get", {"name": "…_prompt", "arguments": {}}),
            ("resources/read", {"uri": "…://1"}),
            ("resources/read", {"uri": "penstock://workflows/…"}),
        )
        for method, params in names:
            await _is_as_unknown(client, ours, method, params, "hidden", "nobody")
        for reference in ({"type": "ref/prompt", "name": "hidden_prompt"}, {"type": "ref/resource", "uri": "x"}):
            for argument in ("workflow_id", "execution_id", "order"):
                params = {"ref": reference, "argument": {"name": argument, "value": ""}}
                told = json.dumps(await asked(client, ours, "completion/complete", params))
                assert "hidden" not in told
                assert run not in told
        status = await client("GET", f"executions/{run}", key=theirs)
        assert status.json()["status"] == "waiting_input"


async def _is_as_unknown(client: Client, key: str, method: str, params: dict[str, Any], real: str, other: str) -> None:
    """Whether somebody hears the same of what is another tenant's and of what there is not."""
    texts = json.dumps(params, ensure_ascii=False)
    heard = [
        json.dumps(await asked(client, key, method, json.loads(texts.replace("…", name)))).replace(name, "…")
        for name in (real, other)
    ]
    assert heard[0] == heard[1], method
    assert "error" in heard[0] or '"isError": true' in heard[0]


async def test_nobody_listens_to_what_another_tenant_does(tmp_path: Path) -> None:
    async with crowded(tmp_path) as client:
        theirs, ours = await key_of(client, "theirs"), await key_of(client, "ours")
        assert (await client("POST", "workflows", {"document": HIDDEN}, key=theirs)).status == 201
        run = (await client("POST", "workflows/hidden/executions", {}, key=theirs)).json()["execution_id"]
        addresses = [f"penstock://executions/{run}", "penstock://workflows/hidden", "hidden://1"]
        wanted = {"toolsListChanged": True, "resourceSubscriptions": addresses, "taskIds": [run]}
        line = Line(client, *modern("subscriptions/listen", {"notifications": wanted}), key=ours).open()
        await line.until("acknowledged")
        session = await new_session(client, key=ours)
        for uri in addresses:
            told = await client(
                "POST", "/mcp", rpc("resources/subscribe", {"uri": uri}), headers={**_HEADERS, **session}, key=ours
            )
            assert "not found" in told.body.decode()
        # They change everything; what is ours is told afterwards, and nothing else was.
        changed = {**HIDDEN, "title": "Another"}
        assert (await client("PUT", "workflows/hidden", {"document": changed}, key=theirs)).status == 200
        assert (await client("POST", f"executions/{run}/cancel", {}, key=theirs)).status == 200
        assert (await client("POST", "workflows", {"document": GREET}, key=ours)).status == 201
        await line.until("tools/list_changed")
        await line.hang_up()
        assert line.heard.count(b"notifications/") == 2
        assert b"hidden" not in line.heard
        assert run.encode() not in line.heard


async def test_sessions_and_streams_are_their_owners(tmp_path: Path) -> None:
    async with crowded(tmp_path) as client:
        theirs, ours = await key_of(client, "theirs"), await key_of(client, "ours")
        session = await new_session(client, key=theirs)
        for method, body in (("GET", None), ("DELETE", None), ("POST", rpc("tools/list"))):
            answer = await client(method, "/mcp", body, headers={**_HEADERS, **session}, key=ours)
            assert answer.status == 404, method
        stream = Line(client, {}, method="GET", path="/mcp/sse", key=theirs).open()
        await stream.until("session_id=")
        where = stream.heard.decode().partition("data: ")[2].split()[0]
        post = await client("POST", where, rpc("tools/list"), headers=_HEADERS, key=ours)
        assert post.status in (403, 404)
        assert (await client("POST", where, rpc("ping"), headers=_HEADERS, key=theirs)).status == 202
        await stream.hang_up()


@pytest.mark.parametrize("way", ["here", "elsewhere"])
async def test_a_key_that_was_revoked_hears_and_gets_nothing_more(tmp_path: Path, way: str) -> None:
    async with crowded(tmp_path) as client:
        made = (await client("POST", "keys", {"name": "short", "scopes": ["*"]})).json()
        key = made["secret"]
        headers, body = modern("tools/list", {})
        for _ in range(3):  # until it is answered from memory
            assert (await client("POST", "/mcp", body, headers={**_HEADERS, **headers}, key=key)).status == 200
        session = await new_session(client, key=key)
        lines = [
            Line(client, *modern("subscriptions/listen", {"notifications": {}}), key=key).open(),
            Line(client, session, method="GET", key=key).open(),
            Line(client, session, calling("nap"), key=key).open(),
        ]
        await lines[0].until("acknowledged")
        await until(lambda: lines[1].status == 200)
        services, key_id = client.gate.services, made["key"]["id"]
        if way == "here":
            assert (await client("POST", f"keys/{key_id}/revoke", {})).status == 200
        else:  # as another process would do it: nobody is told
            row = await read_key(services.platform, key_id)
            assert row is not None
            await put_key(services.platform, msgspec.structs.replace(row, revoked_at=services.clock.now_ms()))
        await asyncio.gather(*(line.ended() for line in lines))
        for chosen in ({**headers}, session, {}):
            refused = await client("POST", "/mcp", body, headers={**_HEADERS, **chosen}, key=key)
            assert refused.status == 401
