"""Schemas, models, tools and agents through the gate: all four are kept alike."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from penstock.app.os_users import os_user
from penstock.operations.catalogue.reasons import REASONS
from tests.unit.operations.conftest import Caller, OpenGate

BODIES: dict[str, dict[str, Any]] = {
    "schema": {"schema": {"type": "object", "properties": {"n": {"type": "integer"}}}, "title": "Order"},
    "model": {"provider": "openai", "model": "m-1", "api_key_secret": "OPENAI_API_KEY", "parameters": {"seed": 1}},
    "tool": {"kind": "mcp", "server": "web", "name": "search", "input_schema": {"type": "object"}},
    "agent": {"name": "Helper", "model": "fast", "instructions": "Help.", "workflows": ["w"], "tools": ["t"]},
}
CHANGES: dict[str, dict[str, Any]] = {
    "schema": {"schema": {"type": "array"}},
    "model": {"provider": "anthropic", "model": "m-2"},
    "tool": {"kind": "step", "name": "steps.search"},
    "agent": {"model": "slow"},
}


def run(open_caller: OpenGate, test: Callable[[Caller], Awaitable[None]]) -> None:
    async def body() -> None:
        async with open_caller() as caller:
            await test(caller)

    asyncio.run(body())


@pytest.mark.parametrize("kind", BODIES)
def test_what_is_registered_can_be_read_changed_and_removed(open_caller: OpenGate, kind: str) -> None:
    async def test(caller: Caller) -> None:
        made = await caller.reply(f"{kind}.create", id="one", **BODIES[kind])
        assert made.location == f"/{kind}s/one"
        key = {f"{kind}_id": "one"}
        got = await caller.reply(f"{kind}.get", **key)
        assert got.etag == made.etag
        shown = await caller.call(f"{kind}.get", **key)
        assert {name: shown[name] for name in BODIES[kind]} == BODIES[kind]
        assert shown["updated_by"] == os_user().principal_id
        changed = await caller.reply(f"{kind}.update", **key, if_match=f'"{made.etag}"', **CHANGES[kind])
        assert changed.etag != made.etag
        shown = await caller.call(f"{kind}.get", **key)
        assert {name: shown[name] for name in CHANGES[kind]} == CHANGES[kind]
        assert await caller.call(f"{kind}.delete", **key, if_match=changed.etag) == {"id": "one", "deleted": True}
        assert (await caller.refusal(f"{kind}.get", **key)).code == f"{kind.upper()}_NOT_FOUND"

    run(open_caller, test)


@pytest.mark.parametrize("kind", BODIES)
def test_an_id_is_taken_once_per_tenant(open_caller: OpenGate, kind: str) -> None:
    async def test(caller: Caller) -> None:
        await caller.call(f"{kind}.create", id="one", **BODIES[kind])
        assert (await caller.refusal(f"{kind}.create", id="one", **CHANGES[kind])).code == f"{kind.upper()}_EXISTS"
        other = await caller.new_caller(f"{kind}:*", tenant="elsewhere")
        missing = await other.refusal(f"{kind}.get", **{f"{kind}_id": "one"})
        assert missing.code == f"{kind.upper()}_NOT_FOUND"
        await other.call(f"{kind}.create", id="one", **CHANGES[kind])

    run(open_caller, test)


@pytest.mark.parametrize("kind", BODIES)
def test_a_change_of_another_version_is_refused(open_caller: OpenGate, kind: str) -> None:
    async def test(caller: Caller) -> None:
        await caller.call(f"{kind}.create", id="one", **BODIES[kind])
        key = {f"{kind}_id": "one"}
        stale = await caller.refusal(f"{kind}.update", **key, if_match="old", **CHANGES[kind])
        assert stale.code == "PRECONDITION_FAILED"
        assert (await caller.refusal(f"{kind}.delete", **key, if_match="old")).code == "PRECONDITION_FAILED"
        await caller.call(f"{kind}.update", **key, if_match="*", **CHANGES[kind])
        await caller.call(f"{kind}.delete", **key)
        gone = await caller.refusal(f"{kind}.update", **key, **CHANGES[kind])
        assert gone.code == f"{kind.upper()}_NOT_FOUND"

    run(open_caller, test)


@pytest.mark.parametrize("kind", BODIES)
def test_lists_are_in_order_of_the_id_and_go_on(open_caller: OpenGate, kind: str) -> None:
    async def test(caller: Caller) -> None:
        for name in ("b.2", "a", "b.1", "c"):
            await caller.call(f"{kind}.create", id=name, **BODIES[kind])
        first = await caller.call(f"{kind}.list", limit=3)
        assert [item["id"] for item in first["items"]] == ["a", "b.1", "b.2"]
        rest = await caller.call(f"{kind}.list", limit=3, cursor=first["next_cursor"])
        assert [item["id"] for item in rest["items"]] == ["c"]
        assert rest["next_cursor"] is None
        named = await caller.call(f"{kind}.list", prefix="b.")
        assert [item["id"] for item in named["items"]] == ["b.1", "b.2"]
        assert (await caller.refusal(f"{kind}.list", cursor="nonsense")).code == "INVALID_LIST_CURSOR"

    run(open_caller, test)


def test_equal_bodies_have_equal_etags_however_they_are_written(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        one = await caller.reply("agent.create", id="one", model="fast", tools=["a"])
        two = await caller.reply("agent.create", id="two", tools=["a"], model="fast", description=None)
        assert one.etag == two.etag

    run(open_caller, test)


@pytest.mark.parametrize(
    ("operation", "arguments", "code"),
    [
        ("schema.create", {"id": "x", "schema": {"type": "no such type"}}, "SCHEMA_INVALID"),
        ("schema.create", {"id": "x", "schema": {"$ref": "https://example.com/other"}}, "SCHEMA_INVALID"),
        ("tool.create", {"id": "x", "kind": "mcp", "name": "search"}, "TOOL_INVALID"),
        ("tool.create", {"id": "x", "kind": "step", "server": "web", "name": "search"}, "TOOL_INVALID"),
        ("tool.create", {"id": "x", "kind": "step", "name": "s", "input_schema": {"type": 7}}, "SCHEMA_INVALID"),
        ("model.create", {"id": "x", "provider": "p", "model": "m", "api_key_secret": "sk-123"}, "INVALID_ARGUMENTS"),
        ("model.create", {"id": "x", "provider": "p", "model": "m", "api_key": "sk-123"}, "INVALID_ARGUMENTS"),
        ("model.create", {"id": "x", "provider": "p", "model": "m", "base_url": "ftp://x"}, "INVALID_ARGUMENTS"),
        ("agent.create", {"id": "no spaces"}, "INVALID_ARGUMENTS"),
        ("agent.create", {"id": "../x"}, "INVALID_ARGUMENTS"),
    ],
)
def test_what_does_not_fit_is_refused(open_caller: OpenGate, operation: str, arguments: Any, code: str) -> None:
    async def test(caller: Caller) -> None:
        assert (await caller.refusal(operation, **arguments)).code == code

    run(open_caller, test)


def test_readers_cannot_write_and_writers_cannot_delete(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        writer = await caller.new_caller("agent:read", "agent:write")
        await writer.call("agent.create", id="one")
        assert (await writer.refusal("agent.delete", agent_id="one")).details["scope"] == "agent:delete"

    run(open_caller, test)


def test_every_code_of_the_registries_is_in_the_table(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        for capability in caller.gate.catalogue.all():
            assert set(capability.errors) <= set(REASONS), capability.name

    run(open_caller, test)
