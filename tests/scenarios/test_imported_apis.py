"""Operations of somebody else's API behind the gate: accepted, called durably, quarantined when a request changes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.app.executors.configured import open_executors
from penstock.app.gate import local_owner, open_gate
from penstock.app.penstock import Penstock
from penstock.app.settings.model import HttpSettings, Settings
from penstock.app.settings.named import ApiSettings, ImportSettings, ToolRuleSettings
from penstock.base import limits
from penstock.base.json import JsonObject
from tests.unit.app.executors.test_upstreams import SECONDS, until_seen
from tests.unit.operations.conftest import Caller
from tests.unit.runtime.executors.web_server import Answer, Seen, WebServer, serving

pytestmark = pytest.mark.anyio
RULES = ImportSettings(tools=("*Order*",), governance={"create*": ToolRuleSettings(scopes=("shop:write",))})
WORKFLOW: JsonObject = {
    "penstock": "v1",
    "name": "newest_order",
    "nodes": [
        {"id": "orders", "type": "tool_call", "server": "shop", "tool": "listOrders", "arguments": {"status": "open"}},
        {"id": "done", "type": "end", "output": "${ .orders.body[0] }"},
    ],
}


def described(url: str, *, delete_by: str = "delete") -> bytes:
    listing = {"operationId": "listOrders", "parameters": [{"name": "status", "in": "query"}]}
    new_order = {"type": "object", "required": ["item"], "properties": {"item": {"type": "string"}}}
    body = {"required": True, "content": {"application/json": {"schema": new_order}}}
    paths = {
        "/orders": {"get": listing, "post": {"operationId": "createOrder", "requestBody": body}},
        "/orders/{id}": {delete_by: {"operationId": "removeOrder"}},
        "/health": {"get": {"operationId": "health"}},
    }
    return msgspec.json.encode({"openapi": "3.1.0", "info": {}, "servers": [{"url": url}], "paths": paths})


@dataclass
class ShopApi:
    """The gate, the API behind it, and the file that describes it."""

    caller: Caller
    server: WebServer
    file: Path

    def describe(self, **changes: Any) -> None:
        self.file.write_bytes(described(self.server.url("/v1"), **changes))
        os.utime(self.file, ns=(1, 1))  # a change within one tick of the clock is a change too


@asynccontextmanager
async def shop_api(tmp_path: Path) -> AsyncIterator[ShopApi]:
    def respond(seen: Seen) -> Answer:
        body = [{"id": "o1"}] if seen.method == "GET" else {"made": msgspec.json.decode(seen.body or b"null")}
        return Answer(body=msgspec.json.encode(body), headers={"content-type": "application/json"})

    async with serving(respond) as server:
        file = tmp_path / "shop.json"
        file.write_bytes(described(server.url("/v1")))
        settings = Settings(
            apis={"shop": ApiSettings(document=str(file), import_=RULES)}, http=HttpSettings(allow_private=True)
        )
        async with (
            asyncio.timeout(SECONDS),
            open_executors(settings) as tools,
            Penstock.open(tmp_path / "p.db", executors=tools.executors, upstream=tools.upstream) as penstock,
            open_gate(penstock) as gate,
        ):
            caller = Caller(gate, local_owner(), penstock)
            await until_seen(caller, name="listOrders")
            yield ShopApi(caller, server, file)


async def test_an_operation_is_a_tool_once_somebody_has_accepted_it(tmp_path: Path) -> None:
    async with shop_api(tmp_path) as api:
        listed = {
            item["name"]: item["status"] for item in (await api.caller.call("upstream.tools", server="shop"))["items"]
        }
        assert listed == {"createOrder": "new", "listOrders": "new", "removeOrder": "new"}
        assert (await api.caller.refusal("upstream:shop.listOrders")).code == "UPSTREAM_TOOL_QUARANTINED"
        await api.caller.call("upstream.accept", server="shop", tools=["listOrders", "createOrder"])
        answer = await api.caller.call("upstream:shop.listOrders", status="open")
        assert (answer["status"], answer["output"]) == ("completed", {"status": 200, "body": [{"id": "o1"}]})
        made = await api.caller.call("upstream:shop.createOrder", item="tea")
        assert made["output"]["body"] == {"made": {"item": "tea"}}
        assert [(seen.method, seen.target) for seen in api.server.seen] == [
            ("GET", "/v1/orders?status=open"),
            ("POST", "/v1/orders"),
        ]


async def test_arguments_are_checked_before_anything_is_sent(tmp_path: Path) -> None:
    async with shop_api(tmp_path) as api:
        await api.caller.call("upstream.accept", server="shop", tools=["createOrder"])
        assert (await api.caller.refusal("upstream:shop.createOrder")).code == "INVALID_ARGUMENTS"
        assert (await api.caller.refusal("upstream:shop.createOrder", item="a", x=1)).code == "INVALID_ARGUMENTS"
        assert api.server.seen == []


async def test_what_the_method_means_decides_about_risk_unless_the_operator_says_otherwise(tmp_path: Path) -> None:
    async with shop_api(tmp_path) as api:
        await api.caller.call("upstream.accept", server="shop", tools=["*"])
        found = {
            item.name: item for item in await api.caller.gate.visible(local_owner()) if item.populator == "upstream"
        }
        told = {
            name.removeprefix("upstream:shop."): (
                item.governance.risk,
                item.annotations.read_only,
                item.annotations.idempotent,
                "shop:write" in item.governance.scopes,
            )
            for name, item in found.items()
        }
        assert told == {
            "listOrders": ("low", True, True, False),
            "createOrder": ("high", False, False, True),
            "removeOrder": ("high", False, True, False),
        }


async def test_a_write_that_an_agent_makes_waits_for_a_person(tmp_path: Path) -> None:
    async with shop_api(tmp_path) as api:
        await api.caller.call("upstream.accept", server="shop", tools=["*"])
        agent = Caller(
            api.caller.gate,
            replace(local_owner(), id="key:agent", kind="agent"),
            api.caller.penstock,
        )
        held = await agent.call("upstream:shop.createOrder", item="tea")
        assert held["status"] == "waiting_approval"
        assert api.server.seen == []
        assert (await agent.call("upstream:shop.listOrders"))["status"] == "completed"


async def test_another_request_behind_the_same_words_is_quarantined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with shop_api(tmp_path) as api:
        await api.caller.call("upstream.accept", server="shop", tools=["*"])
        monkeypatch.setattr(limits, "UPSTREAM_LOOK_AGE_SECONDS_MAX", 0.0)  # as if a minute had passed
        api.describe(delete_by="post")
        answer = await api.caller.call("upstream:shop.removeOrder", id="o1")
        assert answer["error"]["code"] == "UPSTREAM_TOOL_QUARANTINED"
        assert api.server.seen == []
        assert (await until_seen(api.caller, name="removeOrder"))["status"] == "changed"
        await api.caller.call("upstream.accept", server="shop", tools=["removeOrder"])
        assert (await api.caller.call("upstream:shop.removeOrder", id="o1"))["status"] == "completed"
        assert api.server.seen[0].method == "POST"


async def test_a_workflow_calls_an_operation_by_its_name(tmp_path: Path) -> None:
    async with shop_api(tmp_path) as api:
        await api.caller.call("upstream.accept", server="shop", tools=["listOrders"])
        await api.caller.call("workflow.create", document=WORKFLOW)
        ended = await api.caller.call("workflow.execute", workflow_id="newest_order", sync=True)
        assert ended["output"] == {"id": "o1"}


async def test_every_api_sends_its_own_headers_whichever_was_called_first(tmp_path: Path) -> None:
    def respond(seen: Seen) -> Answer:
        return Answer(body=b"[]", headers={"content-type": "application/json"})

    async with serving(respond) as server:
        file = tmp_path / "shop.json"
        file.write_bytes(described(server.url("/v1")))
        apis = {name: ApiSettings(document=str(file), headers={"x-shop": name}) for name in ("first", "second")}
        async with (
            asyncio.timeout(SECONDS),
            open_executors(Settings(apis=apis, http=HttpSettings(allow_private=True))) as tools,
            Penstock.open(tmp_path / "p.db", executors=tools.executors, upstream=tools.upstream) as penstock,
        ):
            for name in apis:
                node: JsonObject = {
                    "id": "orders",
                    "type": "tool_call",
                    "server": name,
                    "tool": "listOrders",
                    "arguments": {},
                }
                asks: JsonObject = {"penstock": "v1", "name": name, "nodes": [node, {"id": "done", "type": "end"}]}
                await penstock.register(asks)
                await (await penstock.start(name)).result(timeout_seconds=60)
        assert [seen.headers.get("x-shop") for seen in server.seen] == ["first", "second"]
