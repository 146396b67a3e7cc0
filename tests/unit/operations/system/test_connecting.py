"""How assistants are connected: entries to copy, without a key in them."""

from __future__ import annotations

import json
import tomllib

from penstock.mcp_surface.options import McpOptions
from penstock.mcp_surface.tools.offering import offer_tools
from penstock.operations.system.clients import CLIENTS
from tests.unit.operations.conftest import Caller, OpenGate
from tests.unit.operations.running import run


def test_every_client_has_an_entry_that_can_be_read_and_that_names_this_server(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        address = "https://flows.example"
        assert (await caller.refusal("system.clients", address=address)).code == "NOT_CONFIGURED"
        offer_tools(caller.gate, McpOptions(version="1"))
        for wrong in ("javascript:alert(1)", "https://flows.example/<script>", "flows.example"):
            assert (await caller.refusal("system.clients", address=wrong)).code == "INVALID_ARGUMENTS"
        shown = await caller.call("system.clients", address=address)
        assert shown["url"] == "https://flows.example/mcp"
        assert [item["client"] for item in shown["items"]] == [*CLIENTS]
        for item in shown["items"]:
            parsed = (tomllib if item["format"] == "toml" else json).loads(item["snippet"])
            assert "penstock" in parsed[CLIENTS[item["client"]].members[0]]
            assert shown["url"] in item["snippet"] or any(address in step for step in item["steps"])
            assert item["files"]
            assert "pen_" not in item["snippet"]

    run(open_caller, test)
