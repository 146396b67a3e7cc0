"""What is counted of MCP is the same whichever way a request is answered, and no label is a client's own word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.operations.telemetry.metrics import Telemetry
from tests.unit.mcp_surface.fast_path.test_backend import META, asked, opened

pytestmark = pytest.mark.anyio

TASKS = {**META, "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}}


def taken(telemetry: Telemetry) -> dict[str, dict[tuple[str, ...], float]]:
    """What was counted since the last time."""
    counters = (telemetry.mcp_requests, telemetry.mcp_tool_calls)
    found = {counter.name: dict(counter.values) for counter in counters}
    seconds = telemetry.mcp_seconds
    found[seconds.name] = {labels: float(sum(counts)) for labels, (counts, _) in seconds.values.items()}
    for family in (*counters, seconds):
        family.values.clear()
    return found


async def test_both_ways_count_the_same(tmp_path: Path) -> None:
    async with opened(tmp_path) as both:
        telemetry = both.gate.services.telemetry
        read: dict[str, Any] = {"name": "workflow.get", "arguments": {"workflow_id": "plain"}}
        missing: dict[str, Any] = {"name": "penstock_workflow_get", "arguments": {"workflow_id": "nothing"}}
        requests = [
            asked("server/discover"),
            asked("tools/list"),
            asked("tools/call", **read),
            asked("tools/call", **missing),
            asked("tasks/get", taskId=both.runs["greet"], meta=TASKS),
            asked("tasks/get", taskId="nothing", meta=TASKS),
            asked("tools/call", name="greet"),
            asked("tools/call", name="made-up-by-a-client"),
            asked("made/up"),
        ]
        for body, headers in requests:
            await both.post(body, headers, fast=True)
        taken(telemetry)
        counts = []
        for fast in (True, False):
            for body, headers in requests:
                await both.post(body, headers, fast=fast)
            counts.append(taken(telemetry))
        assert counts[0] == counts[1]
        assert counts[0]["penstock_mcp_requests"] == {
            ("server/discover", "ok"): 1,
            ("tools/list", "ok"): 1,
            ("tools/call", "ok"): 3,
            ("tools/call", "error"): 1,
            ("tasks/get", "ok"): 1,
            ("tasks/get", "error"): 1,
            ("unknown", "error"): 1,
        }
        assert counts[0]["penstock_mcp_tool_calls"] == {
            ("penstock_workflow_get", "ok"): 1,
            ("penstock_workflow_get", "error"): 1,
            ("greet", "ok"): 1,
            ("unknown", "refused"): 1,
        }
        assert counts[0]["penstock_mcp_request_duration_seconds"][("tools/call",)] == 4
        assert telemetry.mcp_listening == 0
