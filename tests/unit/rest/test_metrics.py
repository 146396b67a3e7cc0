"""What the server counts, who may see it, and that nobody can make it count for ever."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from penstock.base import limits
from penstock.operations.telemetry.metrics import Counter, Histogram
from tests.unit.rest.conftest import HELLO, Client

Run = Callable[..., None]


def samples(text: bytes) -> dict[str, float]:
    """The samples of a page for Prometheus, by name and labels."""
    lines = [line for line in text.decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_metrics_need_a_key_that_may_read_the_system(with_client: Run) -> None:
    async def test(client: Client) -> None:
        assert (await client("GET", "/metrics", key="")).status == 401
        body = {"name": "reader", "scopes": ["workflow:read"]}
        reader = (await client("POST", "keys", body)).json()["secret"]
        refused = await client("GET", "/metrics", key=reader)
        assert (refused.status, refused.json()["code"]) == (403, "SCOPE_REQUIRED")
        found = await client("GET", "/metrics")
        assert found.status == 200
        assert found.headers["content-type"].startswith("text/plain; version=")

    with_client(test)


def test_metrics_are_public_if_the_operator_says_so(with_client: Run) -> None:
    async def test(client: Client) -> None:
        assert (await client("GET", "/metrics", key="")).status == 200

    with_client(test, metrics_public=True)


def test_requests_calls_and_runs_are_counted(with_client: Run) -> None:
    async def test(client: Client) -> None:
        await client("POST", "workflows/hello/executions", {"sync": True})
        await client("GET", "workflows/nothing")
        await client("GET", "/nowhere")
        found = samples((await client("GET", "/metrics")).body)
        route = "/api/v0/workflows/{workflow_id}"
        assert found[f'penstock_http_requests_total{{method="GET",route="{route}",status="404"}}'] == 1
        assert found['penstock_http_requests_total{method="GET",route="none",status="404"}'] == 1
        assert found[f'penstock_http_request_duration_seconds_count{{route="{route}/executions"}}'] == 1
        refused = 'code="WORKFLOW_NOT_FOUND",operation="workflow.get",outcome="refused"'
        assert found[f"penstock_gate_calls_total{{{refused}}}"] == 1
        assert found['penstock_gate_call_duration_seconds_count{operation="workflow.execute"}'] == 1
        assert found["penstock_runs_started_total"] == 1
        assert found['penstock_runs_ended_total{status="completed"}'] == 1
        assert found['penstock_stream_active_connections{kind="execution"}'] == 0
        assert found["penstock_store_commits_total"] > 0
        assert found["penstock_store_jobs_total"] >= found["penstock_store_commits_total"]
        assert found["penstock_process_resident_memory_bytes"] > 1_000_000
        assert [name for name in found if name.startswith("penstock_build_info{")]
        assert all(name.startswith("penstock_") for name in found)

    with_client(test)


def test_the_operation_gives_the_same_numbers(with_client: Run) -> None:
    async def test(client: Client) -> None:
        await client("GET", "info")
        page = samples((await client("GET", "/metrics")).body)
        told = (await client("GET", "metrics")).json()["metrics"]
        name = 'penstock_http_requests_total{method="GET",route="/api/v0/info",status="200"}'
        assert told[name] == page[name] == 1
        assert not [name for name in told if "_bucket" in name]

    with_client(test)


def test_no_label_comes_from_what_callers_write(with_client: Run) -> None:
    async def test(client: Client) -> None:
        for number in range(20):
            await client("GET", f"workflows/name-{number}")
            await client("GET", f"/path-{number}")
            await client(f"METHOD{number}", "info")
        found = samples((await client("GET", "/metrics")).body)
        assert not [name for name in found if re.search(r"name-\d|path-\d|METHOD\d", name)]
        assert found['penstock_http_requests_total{method="other",route="/api/v0/info",status="405"}'] == 20

    with_client(test, workflows=[HELLO])


def test_a_family_is_bounded() -> None:
    counter, histogram = Counter("c", "", ("name",)), Histogram("h", "", ("name",))
    for number in range(limits.METRIC_SERIES_MAX + 100):
        counter.add((str(number),))
        histogram.add(0.1, (str(number),))
    assert len(counter.values) == len(histogram.values) == limits.METRIC_SERIES_MAX + 1
    assert counter.values[("other",)] == 100


def test_requests_of_mcp_are_counted_and_those_that_read_are_not_logged(
    with_client: Run, caplog: pytest.LogCaptureFixture
) -> None:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }

    async def test(client: Client) -> None:
        async def ask(method: str, **params: Any) -> None:
            headers = {
                "accept": "application/json, text/event-stream",
                "mcp-protocol-version": "2026-07-28",
                "mcp-method": method,
                **({"mcp-name": params["name"]} if "name" in params else {}),
            }
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": meta, **params}}
            assert (await client("POST", "/mcp?toolset=management", body, headers=headers)).status == 200

        with caplog.at_level(logging.INFO, "penstock.access"):
            for _ in range(3):
                await ask("tools/list")
                await ask("tools/call", name="penstock_workflow_list", arguments={})
            assert not [record for record in caplog.records if record.name == "penstock.access"]
            await ask("tools/call", name="penstock_workflow_execute", arguments={"workflow_id": "hello"})
            assert [record for record in caplog.records if record.name == "penstock.access"]
        found = samples((await client("GET", "/metrics")).body)
        assert found['penstock_mcp_requests_total{method="tools/list",status="ok"}'] == 3
        assert found['penstock_mcp_requests_total{method="tools/call",status="ok"}'] == 4
        assert found['penstock_mcp_request_duration_seconds_count{method="tools/call"}'] == 4
        assert found['penstock_mcp_tool_calls_total{status="ok",tool_name="penstock_workflow_list"}'] == 3
        assert found['penstock_mcp_tool_calls_total{status="ok",tool_name="penstock_workflow_execute"}'] == 1
        assert found["penstock_mcp_sessions"] == found["penstock_mcp_listening"] == 0
        calls = 'code="",operation="workflow.list",outcome="answered"'
        assert found[f"penstock_gate_calls_total{{{calls}}}"] == 3

    with_client(test)


def test_a_server_starts_without_the_metrics_library() -> None:
    script = "import sys, penstock.app.serving.server; sys.exit('prometheus_client' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
