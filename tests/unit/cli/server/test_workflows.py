"""Workflow files at the start of a server."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from penstock.app.gate import local_owner, open_gate
from penstock.app.penstock import Penstock
from penstock.base.errors import LimitExceeded
from penstock.base.json import JsonObject
from penstock.cli.server.workflows import load_workflow_into, register_workflows
from penstock.definitions.build.workflow import build_workflow
from penstock.operations.gate.chosen_limits import GateLimits
from penstock.operations.gate.internal_callers import internal_call


def document(number: int) -> JsonObject:
    return {"penstock": "v1", "name": f"flow{number}", "nodes": [{"id": "done", "type": "end", "output": number}]}


def test_the_start_of_a_server_and_commands_on_its_file_count_against_no_rate(tmp_path: Path) -> None:
    async def work() -> None:
        chosen = GateLimits(write_per_minute=30)
        async with Penstock.open(tmp_path / "store.db") as penstock, open_gate(penstock, chosen=chosen) as gate:
            await register_workflows(gate, {f"{number}.yaml": build_workflow(document(number)) for number in range(12)})
            listed = await internal_call(gate, local_owner(), "workflow.list", {}, surface="cli")
            assert len(listed.items) == 12
            assert await load_workflow_into(gate, build_workflow({**document(1), "title": "New"}))

            async def create_many() -> None:
                for number in range(20, 40):
                    given: JsonObject = {"document": document(number)}
                    await internal_call(gate, local_owner(), "workflow.create", given, surface="mcp")

            with pytest.raises(LimitExceeded, match=r"more than 30 write calls a minute .*more than 5 at once"):
                await create_many()

    asyncio.run(work())
