"""The books of callers: what a key offers, what an address chooses among it, and how a workflow stands in a list."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from penstock.mcp_surface.options import McpOptions
from penstock.mcp_surface.tools.registry import ToolRegistry
from penstock.mcp_surface.tools.tool_list import BYTES_PER_TOKEN, ToolList
from tests.unit.operations.conftest import Caller, OpenGate, open_caller
from tests.unit.operations.documents import DOUBLE

__all__ = ["open_caller"]

pytestmark = pytest.mark.anyio
ICON = "https://shop.example/double.png"
DOUBLED = {
    **DOUBLE,
    "version": "1.2.0",
    "expose": {"tool": {"name": "shop.double", "title": "Twice", "icon": ICON, "annotations": {"read_only": True}}},
}


async def tool_list(caller: Caller, toolset: str | None = None, **options: Any) -> ToolList:
    principal = await caller.principal()
    return await ToolRegistry(caller.gate, McpOptions(**options)).of(principal, toolset)


def names(found: ToolList) -> list[str]:
    return [tool.name for tool in found.tools]


async def with_toolset(caller: Caller, toolset: str) -> Caller:
    made = await caller.call("key.create", name=toolset, scopes=["*"], toolset=toolset)
    assert made["key"]["toolset"] == toolset
    return caller.with_key(made["secret"])


async def test_a_key_offers_its_own_tools_and_no_others(open_caller: OpenGate) -> None:
    async with open_caller() as caller:
        await caller.call("workflow.create", document=DOUBLED)
        assert "penstock_workflow_list" in names(await tool_list(caller, "management"))
        holder = await with_toolset(caller, "shop_double, workflow.get")
        offered = await tool_list(holder)
        assert names(offered) == ["penstock_workflow_get", "shop_double"]
        assert offered.find("penstock_workflow_list") is None


async def test_an_address_chooses_among_what_the_key_offers(open_caller: OpenGate) -> None:
    async with open_caller() as caller:
        await caller.call("workflow.create", document=DOUBLED)
        holder = await with_toolset(caller, "workflows")
        everything = names(await tool_list(holder, "all"))
        assert everything == names(await tool_list(holder))
        assert "shop_double" in everything
        assert "penstock_workflow_list" not in everything
        assert names(await tool_list(holder, "shop_double")) == ["shop_double"]
        assert names(await tool_list(holder, "operations")) == [name for name in everything if name != "shop_double"]


async def test_keys_with_the_same_scopes_and_other_tools_have_books_of_their_own(open_caller: OpenGate) -> None:
    async with open_caller() as caller:
        registry = ToolRegistry(caller.gate, McpOptions())
        wide = await caller.new_caller("*", name="wide")
        narrow = await with_toolset(caller, "workflow.list")
        books = []
        for holder in (wide, narrow, wide):
            principal = await holder.principal()
            books.append(await registry.of(principal))
            assert registry.last_of(principal) is books[-1]
        assert books[0] is books[2]
        assert names(books[1]) == ["penstock_workflow_list"]


async def test_a_key_keeps_its_tools_when_it_is_replaced(open_caller: OpenGate) -> None:
    async with open_caller() as caller:
        made = await caller.call("key.create", name="assistant", scopes=["*"], toolset="workflows")
        again = await caller.call("key.rotate", key_id=made["key"]["id"])
        assert again["key"]["toolset"] == "workflows"


async def test_a_workflow_is_listed_with_its_version_and_a_digest_of_its_schemas(open_caller: OpenGate) -> None:
    async with open_caller() as caller:
        created = await caller.call("workflow.create", document=DOUBLED)
        tool = (await tool_list(caller)).find("shop.double")
        assert tool is not None
        assert (tool.name, tool.listed["title"], tool.listed["icons"]) == ("shop_double", "Twice", [{"src": ICON}])
        meta = tool.listed["_meta"]
        assert isinstance(meta, dict)
        assert meta["penstock/workflow"] == "double"
        assert meta["penstock/version"] == "1.2.0"
        assert meta["penstock/hash"] == created["hash"]
        await caller.call("workflow.update", workflow_id="double", document={**DOUBLED, "title": "Two times"})
        retold = (await tool_list(caller)).find("shop_double")
        assert retold is not None
        other = retold.listed["_meta"]
        assert isinstance(other, dict)
        assert other["penstock/hash"] != meta["penstock/hash"]
        assert other["penstock/schema_hash"] == meta["penstock/schema_hash"]
        narrower = {**DOUBLED, "input": {"type": "object", "properties": {"number": {"type": "integer"}}}}
        await caller.call("workflow.update", workflow_id="double", document=narrower)
        changed = (await tool_list(caller)).find("workflow:double")
        assert changed is not None
        newest = changed.listed["_meta"]
        assert isinstance(newest, dict)
        assert newest["penstock/schema_hash"] != meta["penstock/schema_hash"]


@pytest.mark.parametrize(("spelling", "listed"), [("underscore", "shop_double"), ("dot", "shop.double")])
async def test_both_spellings_of_a_workflow_are_understood(open_caller: OpenGate, spelling: str, listed: str) -> None:
    async with open_caller() as caller:
        await caller.call("workflow.create", document=DOUBLED)
        found = await tool_list(caller, tool_names=spelling)
        assert listed in names(found)
        for name in ("shop.double", "shop_double", "workflow:double"):
            tool = found.find(name)
            assert tool is not None
            assert tool.name == listed


async def test_a_list_says_what_it_costs(open_caller: OpenGate) -> None:
    async with open_caller() as caller:
        found = await tool_list(caller)
        size = found.size()
        assert size["tools"] == len(found.tools)
        assert isinstance(size["bytes"], int)
        whole = len(msgspec.json.encode([tool.listed for tool in found.tools]))
        assert abs(size["bytes"] - whole) < 10
        assert isinstance(size["tokens"], int)
        assert 0 <= size["tokens"] * BYTES_PER_TOKEN - size["bytes"] < BYTES_PER_TOKEN
