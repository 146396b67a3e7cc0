"""Calls of APIs: what is sent, who may not call, and what comes back."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from penstock.base import limits
from penstock.base.errors import Unavailable
from penstock.base.json import object_or_empty
from penstock.runtime.activities.performing import ActivityDone, ActivityOutcome
from penstock.runtime.executors.http.executor import HttpExecutor
from penstock.runtime.executors.openapi.executor import ApiExecutor
from penstock.runtime.executors.openapi.sources import ApiConfig
from penstock.runtime.upstreams.tools import ImportRules, ServerState, ToolRefusal, UpstreamResource, UpstreamTool
from tests.unit.runtime.executors.calls import call_of, done, error
from tests.unit.runtime.executors.web_server import Answer, Seen, WebServer, serving

pytestmark = pytest.mark.anyio
JSON = {"content-type": "application/json"}


def shop(url: str, *, method: str = "get") -> dict[str, Any]:
    """A small API."""
    parameters = [{"name": "status", "in": "query"}, {"name": "page", "in": "query"}]
    new_order = {"type": "object", "required": ["item"], "properties": {"item": {"type": "string"}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Shop"},
        "servers": [{"url": url}],
        "paths": {
            "/orders": {
                method: {"operationId": "listOrders", "parameters": parameters},
                "put": {
                    "operationId": "putOrder",
                    "requestBody": {"required": True, "content": {"application/json": {"schema": new_order}}},
                },
            },
            "/customers/{customer}/orders": {
                "get": {
                    "operationId": "customerOrders",
                    "parameters": [
                        {"name": "customer", "in": "path", "required": True, "schema": {"type": "string"}},
                        {"name": "page", "in": "query", "schema": {"type": "integer"}},
                        {"name": "open", "in": "query", "schema": {"type": "boolean"}},
                        {"name": "tag", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}},
                    ],
                }
            },
        },
    }


@dataclass
class Guard:
    """Remembers what it is told, and refuses what it is told to refuse."""

    refusals: dict[str, ToolRefusal] = field(default_factory=dict)
    listed: list[tuple[UpstreamTool, ...]] = field(default_factory=list)

    async def tools_listed(self, server: str, tools: tuple[UpstreamTool, ...]) -> None:
        self.listed.append(tools)

    def resources_listed(self, server: str, resources: tuple[UpstreamResource, ...]) -> None:
        raise AssertionError("no resources are imported")

    async def refusal(self, tenant: str, server: str, tool: str) -> ToolRefusal | None:
        return self.refusals.get(tool)

    def state(self, server: str, state: ServerState) -> None:
        raise AssertionError("no watch is running")


@dataclass
class Api:
    """An API, and the executor that calls it."""

    executor: ApiExecutor
    server: WebServer
    guard: Guard
    file: Path

    async def call(self, tool: str, arguments: Any = None, **more: Any) -> ActivityOutcome:
        call = call_of("tool_call", {"server": "shop", "tool": tool}, arguments or {}, timeout_ms=30_000)
        return await self.executor.perform(replace(call, **more))


@asynccontextmanager
async def api(folder: Path, answer: Any = None, *, private: bool = True, **config: Any) -> AsyncIterator[Api]:
    async with serving(answer or Answer(body=b'{"ok":true}', headers=JSON)) as server:
        file = folder / "shop.json"
        file.write_bytes(msgspec.json.encode(shop(server.url("/v1"))))
        guard = Guard()
        executor = ApiExecutor(
            {"shop": ApiConfig(document=config.pop("document", file), **config)},
            http=HttpExecutor(allow_private=private),
            guard=guard,
            rules={"shop": ImportRules(prefix="shop", tools=("list*",))},
        )
        try:
            yield Api(executor, server, guard, file)
        finally:
            await executor.close()


async def test_a_call_is_a_request_and_its_answer_is_marked_as_untrusted(tmp_path: Path) -> None:
    async with api(tmp_path) as shop_api:
        outcome = await shop_api.call("listOrders", {"status": "open"})
        assert done(outcome) == {"status": 200, "body": {"ok": True}}
        assert isinstance(outcome, ActivityDone)
        assert outcome.extra == {"untrusted": True}
        assert [(seen.method, seen.target) for seen in shop_api.server.seen] == [("GET", "/v1/orders?status=open")]


async def test_a_write_carries_its_idempotency_key_and_body(tmp_path: Path) -> None:
    async with api(tmp_path) as shop_api:
        done(await shop_api.call("putOrder", {"item": "tea"}))
        seen = shop_api.server.seen[0]
        assert (seen.method, seen.body) == ("PUT", b'{"item":"tea"}')
        assert seen.headers["idempotency-key"] == "r_1/pay/1"


async def test_credentials_are_the_operators_and_never_in_a_text(tmp_path: Path) -> None:
    def echo(seen: Seen) -> Answer:
        return Answer(status=400, body=f"{seen.headers['authorization']} {seen.target}".encode())

    headers, query = {"Authorization": "Bearer planted-secret"}, {"api_key": "planted-key-value"}
    async with api(tmp_path, echo, headers=headers, query=query) as shop_api:
        failed = error(await shop_api.call("listOrders"))
        assert shop_api.server.seen[0].target == "/v1/orders?api_key=planted-key-value"
        assert failed.code == "HTTP_400"
        assert "planted" not in failed.error


async def test_the_api_is_told_for_whom_a_call_is_made_where_the_operator_says_so(tmp_path: Path) -> None:
    async with api(tmp_path, headers={"X-User": "${principal}", "X-Tenant": "${tenant}"}) as shop_api:
        done(await shop_api.call("listOrders", principal="key:jo\r\nx", tenant="acme"))
        sent = shop_api.server.seen[0].headers
        assert (sent["x-user"], sent["x-tenant"]) == ("key:jo%0D%0Ax", "acme")


async def test_the_following_page_comes_as_arguments(tmp_path: Path) -> None:
    link = '</v1/orders?page=1>; rel="prev", </v1/orders?page=3&status=open&x=1>; rel="next"'
    async with api(tmp_path, Answer(body=b"[]", headers={**JSON, "link": link})) as shop_api:
        assert done(await shop_api.call("listOrders")) == {
            "status": 200,
            "body": [],
            "next": {"page": "3", "status": "open"},
        }


async def test_the_following_page_can_be_asked_for_with_what_the_answer_says(tmp_path: Path) -> None:
    link = '</v1/customers/c-1/orders?page=3&open=true&tag=a&tag=b>; rel="next"'
    async with api(tmp_path, Answer(body=b"[]", headers={**JSON, "link": link})) as shop_api:
        given = {"customer": "c-1", "page": 2, "open": True}
        following = object_or_empty(done(await shop_api.call("customerOrders", given)))["next"]
        assert following == {"customer": "c-1", "page": 3, "open": True, "tag": ["a", "b"]}
        again = object_or_empty(done(await shop_api.call("customerOrders", following)))
        assert again["next"] == following
        assert shop_api.server.seen[1].target == "/v1/customers/c-1/orders?page=3&open=true&tag=a&tag=b"
        # A part of the path that is a secret is not shown.
        hidden = done(await shop_api.call("customerOrders", given, hidden=("c-1",)))
        assert "next" not in object_or_empty(hidden)


@pytest.mark.parametrize(
    ("tool", "arguments", "code", "said"),
    [
        ("listOrder", {}, "OPENAPI_OPERATION_UNKNOWN", "listOrders"),
        ("listOrders", {"stat": 1}, "INVALID_ARGUMENTS", "status"),
        ("putOrder", {}, "INVALID_ARGUMENTS", "`item` is missing"),
    ],
)
async def test_a_mistake_in_a_node_is_said_before_anything_is_sent(
    tmp_path: Path, tool: str, arguments: Any, code: str, said: str
) -> None:
    async with api(tmp_path) as shop_api:
        failed = error(await shop_api.call(tool, arguments))
        assert (failed.code, failed.retryable, shop_api.server.seen) == (code, False, [])
        assert said in failed.error


async def test_what_the_guard_refuses_is_not_sent(tmp_path: Path) -> None:
    async with api(tmp_path) as shop_api:
        shop_api.guard.refusals["listOrders"] = ToolRefusal("UPSTREAM_TOOL_QUARANTINED", "changed")
        assert error(await shop_api.call("listOrders")).code == "UPSTREAM_TOOL_QUARANTINED"
        assert shop_api.server.seen == []


async def test_addresses_of_this_machine_are_not_called_unless_the_settings_say_so(tmp_path: Path) -> None:
    async with api(tmp_path, private=False) as shop_api:
        assert error(await shop_api.call("listOrders")).code == "HTTP_ADDRESS_DENIED"
        assert shop_api.server.connections == 0


async def test_only_what_the_settings_import_is_listed_with_its_request(tmp_path: Path) -> None:
    async with api(tmp_path) as shop_api:
        await shop_api.executor.look("shop")
        (tool,) = shop_api.guard.listed[0]
        assert tool.name == "listOrders"
        assert tool.request is not None
        assert (tool.request["method"], tool.request["path"]) == ("GET", "/orders")


async def test_a_changed_file_is_read_again_before_the_next_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "UPSTREAM_LOOK_AGE_SECONDS_MAX", 0)
    async with api(tmp_path) as shop_api:
        done(await shop_api.call("listOrders"))
        done(await shop_api.call("listOrders"))
        assert len(shop_api.guard.listed) == 1
        changed = msgspec.json.encode(shop(shop_api.server.url("/v1"), method="delete"))
        shop_api.file.write_bytes(changed)
        os.utime(shop_api.file, ns=(1, 1))
        done(await shop_api.call("listOrders"))
        assert shop_api.guard.listed[-1][0].request["method"] == "DELETE"  # type: ignore[index]


async def test_a_document_may_be_at_an_address(tmp_path: Path) -> None:
    def respond(seen: Seen) -> Answer:
        if seen.target == "/openapi.json":
            return Answer(body=msgspec.json.encode(shop(f"http://{seen.headers['host']}/v1")), headers=JSON)
        return Answer(body=b'{"ok":true}', headers=JSON)

    async with serving(respond) as server, api(tmp_path, document=server.url("/openapi.json")) as shop_api:
        done(await shop_api.call("listOrders"))
        assert [seen.target for seen in server.seen] == ["/openapi.json", "/v1/orders"]


@pytest.mark.parametrize("text", [None, b"{", b'{"swagger": "2.0", "paths": {}}'])
async def test_a_document_that_cannot_be_had_fails_the_call_with_a_reason(tmp_path: Path, text: bytes | None) -> None:
    async with api(tmp_path) as shop_api:
        shop_api.file.unlink()
        if text is not None:
            shop_api.file.write_bytes(text)
        failed = error(await shop_api.call("listOrders"))
        expected = {None: "UPSTREAM_UNAVAILABLE", b"{": "OPENAPI_INVALID"}.get(text, "OPENAPI_VERSION")
        assert failed.code == expected
        assert str(tmp_path) not in failed.error


async def test_a_look_at_a_document_that_is_gone_raises(tmp_path: Path) -> None:
    async with api(tmp_path) as shop_api:
        shop_api.file.unlink()
        with pytest.raises(Unavailable):
            await shop_api.executor.look("shop")
