"""Resources of other MCP servers on our own surface: listed, read and followed where somebody accepted that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from penstock.app.settings.named import ImportSettings, ToolRuleSettings
from penstock.base.json import JsonObject
from penstock.mcp_surface.callers import Caller, ProtocolFault
from penstock.mcp_surface.calls.calls import ToolCalls
from penstock.mcp_surface.options import McpOptions
from penstock.mcp_surface.resources.contents import Contents
from penstock.mcp_surface.subscriptions.changes import ChangeWatcher, ListChanged, ResourceUpdated
from penstock.mcp_surface.tools.registry import ToolRegistry
from tests.unit.app.executors.test_upstreams import platform, shop, told_shop, until_seen
from tests.unit.operations.conftest import Caller as GateCaller
from tests.waiting import until, until_found

pytestmark = pytest.mark.anyio
RULES = ImportSettings(
    tools=("search",),
    resources=("shop://*",),
    governance={"resources/*": ToolRuleSettings(scopes=("shop:look",))},
)
READERS = ["resources/list", "resources/read"]
TEAS, ONE_TEA = "penstock://upstreams/shop/shop://teas", "penstock://upstreams/shop/shop://teas/{name}"
META = {"penstock/server": "shop", "penstock/untrusted": True}


class Surface(NamedTuple):
    """The resources of a platform, as a caller reaches them."""

    gate: GateCaller
    contents: Contents
    changes: ChangeWatcher
    caller: Caller

    async def uris(self, caller: Caller | None = None) -> list[str]:
        listed = await self.contents.resources(caller or self.caller)
        return [str(item["uri"]) for item in listed if "upstreams" in str(item["uri"])]

    async def accept(self) -> None:
        """Accept the tools that read; what the server lists may be known a moment later than they are."""
        await self.gate.call("upstream.accept", server="shop", tools=READERS)

        async def is_listed() -> bool:
            return await self.uris() == [TEAS]

        await until(is_listed)


@asynccontextmanager
async def surface(tmp_path: Path, way: str = "http") -> AsyncIterator[Surface]:
    async with shop(tmp_path, way, RULES) as upstream, platform(tmp_path, shop=upstream.settings) as gate:
        await until_seen(gate, name="resources/read")
        options = McpOptions(patience_seconds=20)
        registry = ToolRegistry(gate.gate, options)
        contents = Contents(gate.gate, registry, ToolCalls(gate.gate, registry, options))
        changes = ChangeWatcher(gate.gate, registry, contents)
        try:
            yield Surface(gate, contents, changes, Caller(principal=await gate.principal(), request_id="test"))
        finally:
            await changes.stop()


async def test_resources_are_listed_and_read_under_addresses_of_ours_once_accepted(tmp_path: Path) -> None:
    async with surface(tmp_path) as here:
        assert await here.uris() == []
        with pytest.raises(ProtocolFault, match="Resource not found"):
            await here.contents.read(here.caller, TEAS, legacy=False)
        await here.accept()
        assert await here.uris() == [TEAS]
        templates = await here.contents.templates(here.caller)
        [tea] = [item for item in templates if "upstreams" in str(item["uriTemplate"])]
        assert tea == {"uriTemplate": ONE_TEA, "name": "tea", "description": "One tea.", "_meta": META}
        read = await here.contents.read(here.caller, f"{TEAS}/green%20tea", legacy=False)
        marked = {"penstock/untrusted": True}
        [contents] = _list(read["contents"])
        assert contents == {"uri": f"{TEAS}/green%20tea", "text": "green, black", "_meta": marked}
        assert read["_meta"] == marked
        runs = (await here.gate.call("execution.list"))["items"]
        assert [item["workflow_id"] for item in runs] == ["upstream:shop.resources/read"]


def _list(value: Any) -> list[JsonObject]:
    assert isinstance(value, list)
    return value


@pytest.mark.parametrize("address", ["secret://key", "shop://../key", "", "shop://a%2Fb"])
async def test_what_the_settings_do_not_admit_is_not_there(tmp_path: Path, address: str) -> None:
    async with surface(tmp_path) as here:
        await here.accept()
        uri = f"penstock://upstreams/shop/{address}"
        with pytest.raises(ProtocolFault, match="Resource not found"):
            await here.contents.read(here.caller, uri, legacy=False)
        assert not await here.changes.add_address(await here.changes.open(here.caller, (), lambda: None), uri)


async def test_who_may_not_read_sees_nothing(tmp_path: Path) -> None:
    async with surface(tmp_path) as here:
        await here.accept()
        poor = replace(here.caller.principal, scopes=frozenset({"upstream:run", "execution:read"}), kind="service")
        caller = Caller(principal=poor, request_id="test")
        assert await here.uris(caller) == []
        with pytest.raises(ProtocolFault, match="Resource not found"):
            await here.contents.read(caller, TEAS, legacy=False)
        await here.gate.call("upstream.revoke", server="shop", tool="resources/read")
        assert await here.uris() == []


@pytest.mark.parametrize("way", ["http", "http_legacy"])
async def test_a_subscriber_hears_that_the_resource_of_another_server_changed(tmp_path: Path, way: str) -> None:
    async with surface(tmp_path, way) as here:
        await here.accept()
        subscription = await here.changes.open(here.caller, (), lambda: None)
        assert await here.changes.add_address(subscription, TEAS)

        async def heard() -> Any:
            await told_shop(here.gate, "announce")
            return ResourceUpdated(TEAS) in subscription.take() or None

        await until_found(heard)
        here.changes.remove_address(subscription, TEAS)
        upstreams = here.gate.gate.services.upstreams
        assert upstreams is not None
        assert upstreams.followed.wanted("shop") == frozenset()


async def test_a_list_with_a_resource_of_another_server_changes_when_that_is_accepted(tmp_path: Path) -> None:
    async with surface(tmp_path) as here:
        arrived = asyncio.Event()
        subscription = await here.changes.open(here.caller, ("resources",), arrived.set)
        await here.accept()
        await arrived.wait()
        assert subscription.take() == [ListChanged("resources")]
