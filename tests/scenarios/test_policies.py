"""What a policy forbids happens on no surface; what it permits does."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from penstock.app.serving.server import ServerOptions
from penstock.mcp_surface.options import McpOptions
from tests.scenarios.test_start_scopes import (
    META,
    SCOPE,
    _tool,
    control_plane,
    mcp_operation,
    mcp_tool,
    openwop,
    openwop_mcp,
    rest,
    started,
)
from tests.unit.rest.conftest import HELLO, Client, opened
from tests.waiting import until

pytestmark = pytest.mark.anyio
REFUND = {**HELLO, "name": "refund", "expose": {"tool": True}}
RIGHTS = ["workflow:*", "execution:*", SCOPE]
BASE = '@id("scopes-decide") permit (principal, action, resource);\n'
NO_CONTRACTORS = (
    '@id("no-contractors") forbid (principal in Group::"contractors", action == Action::"workflow:refund", resource);\n'
)
SURFACES = {
    rest: (403, "POLICY_DENIED"),
    control_plane: (403, "POLICY_DENIED"),
    openwop: (403, "a policy does not permit"),
    mcp_tool: (400, "Unknown tool: refund"),
    mcp_operation: (200, "POLICY_DENIED"),
    openwop_mcp: (200, "Unknown tool: refund"),
}


def options(folder: Path, *policies: str) -> ServerOptions:
    file = folder / "policies.cedar"
    file.write_text("".join(policies), encoding="utf-8")
    return ServerOptions(mcp=McpOptions(patience_seconds=20), policy_files=(str(file),))


async def new_key(client: Client, *scopes: str, groups: list[str] | None = None, **more: Any) -> str:
    made = await client("POST", "keys", {"name": "somebody", "scopes": list(scopes), "groups": groups or [], **more})
    assert made.status == 201, made
    secret: str = made.json()["secret"]
    return secret


@pytest.mark.parametrize("way", SURFACES, ids=lambda way: way.__name__)
async def test_every_surface_refuses_a_start_that_a_policy_forbids(way: Any, tmp_path: Path) -> None:
    async with opened(tmp_path, options(tmp_path, BASE, NO_CONTRACTORS)) as client:
        assert (await client("POST", "workflows", {"document": REFUND})).status == 201
        outsider, member = (
            await new_key(client, *RIGHTS, groups=["contractors"]),
            await new_key(client, *RIGHTS, groups=["staff"]),
        )
        status, told = SURFACES[way]
        refused = await way(client, outsider)
        assert (refused.status, told in refused.body.decode()) == (status, True), refused
        assert await started(client) == 0
        answer = await way(client, member)
        assert answer.status in (200, 201, 202), answer
        assert await started(client) == 1


CARD = "4111111111111111"
CARDS = (
    '@id("cards") @redact("output.card") forbid (principal, action == Action::"workflow:refund", resource)'
    ' unless { principal in Group::"finance" };\n'
)
PAYING = {
    **REFUND,
    "nodes": [{"id": "done", "type": "end", "output": {"card": CARD, "paid": True}}],
    "output": {
        "type": "object",
        "required": ["card", "paid"],
        "properties": {"card": {"type": "string"}, "paid": {"type": "boolean"}},
    },
}


@pytest.mark.parametrize("way", SURFACES, ids=lambda way: way.__name__)
async def test_a_hidden_field_is_shown_on_no_surface(way: Any, tmp_path: Path) -> None:
    async with opened(tmp_path, options(tmp_path, BASE, CARDS)) as client:
        assert (await client("POST", "workflows", {"document": PAYING})).status == 201
        blind, sees = await new_key(client, *RIGHTS), await new_key(client, *RIGHTS, groups=["finance"])
        answer = await way(client, blind)
        assert CARD not in answer.body.decode()
        if way is control_plane:  # it shows whatever is in a run
            assert (answer.status, answer.json()["code"]) == (403, "FIELDS_HIDDEN")
            return
        await way(client, sees)

        async def ended() -> bool:
            runs = (await client("GET", "executions")).json()["items"]
            return bool(runs) and all(item["status"] == "completed" for item in runs)

        await until(ended)
        for run in (await client("GET", "executions")).json()["items"]:
            for view in ("", "/wait", "/history", "/stream"):
                path = f"executions/{run['execution_id']}{view}"
                told = (await client("GET", path, key=blind)).body.decode()
                assert CARD not in told, path
                assert CARD in (await client("GET", path, key=sees)).body.decode(), path
            task = await _tool(client, blind, "execution_wait", {"execution_id": run["execution_id"]})
            assert CARD not in task.body.decode()


async def _listed(client: Client, key: str) -> set[str]:
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/list", "host": "127.0.0.1"}
    headers["accept"] = "application/json, text/event-stream"
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}}
    answer = await client("POST", "/mcp?toolset=all", body, headers=headers, key=key)
    return {tool["name"] for tool in answer.json()["result"]["tools"]}


async def test_lists_show_what_some_arguments_could_be_permitted(tmp_path: Path) -> None:
    small = (
        '@id("small") forbid (principal, action == Action::"workflow:refund", resource)'
        " when { context.input.amount > 5 };"
    )
    amount = {"type": "object", "required": ["amount"], "properties": {"amount": {"type": "integer"}}}
    document = {**REFUND, "input": amount}
    async with opened(tmp_path, options(tmp_path, BASE, NO_CONTRACTORS, small)) as client:
        assert (await client("POST", "workflows", {"document": document})).status == 201
        outsider, member = (
            await new_key(client, *RIGHTS, groups=["contractors"]),
            await new_key(client, *RIGHTS, groups=["staff"]),
        )
        for _ in range(2):  # the second time from caches
            assert "refund" not in await _listed(client, outsider)
            assert "refund" in await _listed(client, member)
        refused = await _tool(client, member, "refund", {"amount": 6})
        assert "POLICY_DENIED" in refused.body.decode()
        unfit = await _tool(client, member, "refund", {})
        assert "INVALID_ARGUMENTS" in unfit.body.decode()
        answered = await _tool(client, member, "refund", {"amount": 5})
        assert "POLICY_DENIED" not in answered.body.decode()
        assert await started(client) == 1


async def test_changed_files_are_read_again_and_broken_ones_are_not_used(tmp_path: Path) -> None:
    chosen = options(tmp_path, BASE)
    file = Path(chosen.policy_files[0])
    async with opened(tmp_path, chosen) as client:
        key = await new_key(client, "workflow:read", kind="agent")

        async def is_refused() -> bool:
            return (await client("GET", "workflows", key=key)).status == 403

        assert not await is_refused()
        await asyncio.to_thread(file.write_text, BASE + '@id("no") forbid (principal is Agent, action, resource);\n')
        await until(is_refused)
        await asyncio.to_thread(file.write_text, "permit (")

        async def says_so() -> bool:
            health = (await client("GET", "health")).json()
            return "older policies are in force" in json.dumps(health)

        await until(says_so)
        assert await is_refused()
        trail = (await client("GET", "audit?operation=policy.load&outcome=refused")).json()["items"]
        assert [item["code"] for item in trail] == ["POLICY_INVALID"]
        await asyncio.to_thread(file.write_text, BASE)

        async def is_permitted() -> bool:
            return not await is_refused()

        await until(is_permitted)
