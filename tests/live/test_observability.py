"""OpenTelemetry: one trace from the caller to what a workflow calls, over a restart; metrics and logs; or nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.fixtures.otlp_collector import Collector, attributes_of, collecting
from tests.live.rest.servers import LiveServer
from tests.waiting import wait_until

TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLER = f"00-{TRACE}-b7ad6b7169203331-01"


def document(url: str) -> dict[str, object]:
    ask = {"type": "http", "method": "POST", "url": f"{url}/service", "body": {"amount": 1}}
    return {
        "penstock": "v1",
        "name": "order",
        "description": "Orders something.",
        "expose": {"tool": True},
        "nodes": [
            {"id": "reserve", **ask},
            {"id": "sure", "type": "interrupt", "message": "Sure?"},
            {"id": "pay", **ask},
            {"id": "done", "type": "end"},
        ],
    }


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with collecting() as running:
        yield running


@pytest.fixture(scope="module")
def server(collector: Collector, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    settings = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_BSP_SCHEDULE_DELAY": "100",
        "OTEL_BLRP_SCHEDULE_DELAY": "100",
        "OTEL_METRIC_EXPORT_INTERVAL": "200",
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=test",
        "PENSTOCK_HTTP_ALLOW_PRIVATE": "true",
    }
    running = LiveServer(tmp_path_factory.mktemp("server"), settings=settings)
    running.start()
    try:
        running.call("POST", "workflows", {"document": document(collector.url)})
        yield running
    finally:
        running.kill()


def test_a_run_stays_in_the_trace_of_its_caller_over_a_wait_and_a_restart(
    server: LiveServer, collector: Collector
) -> None:
    started = server.call("POST", "workflows/order/executions", {"input": {}}, headers={"traceparent": CALLER})
    run_id = started["execution_id"]
    path = f"executions/{run_id}"
    wait_until(lambda: server.call("GET", path)["status"] == "waiting_input")
    server.stop()
    server.start()
    question = server.call("GET", path)["waiting_for"]["questions"][0]["interrupt_id"]
    server.call("POST", f"{path}/answers", {"interrupt_id": question, "answer": {}})
    assert server.call("GET", f"{path}/wait?wait_seconds=60")["status"] == "completed"
    wait_until(lambda: {"run order", "gate workflow.execute"} <= set(collector.spans_of(TRACE)))
    wait_until(lambda: sum(span.name == "activity http" for span in collector.spans) == 2)
    spans = collector.spans_of(TRACE)
    gate, run = spans["gate workflow.execute"], spans["run order"]
    assert gate.parent_span_id.hex() == "b7ad6b7169203331"
    assert run.parent_span_id == gate.span_id
    activities = [span for span in collector.spans if span.name == "activity http"]
    assert {span.parent_span_id for span in activities} == {run.span_id}
    assert {attributes_of(span)["penstock.node"] for span in activities} == {"reserve", "pay"}
    assert {attributes_of(span)["penstock.run_id"] for span in activities} == {attributes_of(run)["penstock.run_id"]}
    # What was called got the span of the attempt that called it.
    sent = [asked["traceparent"] for asked in collector.asked]
    assert sorted(sent) == sorted(f"00-{TRACE}-{span.span_id.hex()}-01" for span in activities)
    assert run.start_time_unix_nano <= min(span.start_time_unix_nano for span in activities)
    assert run.end_time_unix_nano >= max(span.start_time_unix_nano for span in activities)
    told = json.dumps([attributes_of(span) for span in collector.spans])
    assert "amount" not in told
    [resource, *_] = collector.resources
    assert (resource["service.name"], resource["deployment.environment"]) == ("penstock", "test")


def test_a_tool_call_over_mcp_brings_its_trace_in_the_metadata(server: LiveServer, collector: Collector) -> None:
    trace = "7" * 32
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "traceparent": f"00-{trace}-{'8' * 16}-01",
    }
    params = {"name": "order", "arguments": {}, "_meta": meta}
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "order",
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    assert server.request("POST", "/mcp", message, headers=headers).status == 200
    wait_until(lambda: "activity http" in collector.spans_of(trace))
    wait_until(lambda: any(name.startswith("gate ") for name in collector.spans_of(trace)))
    gates = [span for name, span in collector.spans_of(trace).items() if name.startswith("gate ")]
    assert {span.parent_span_id.hex() for span in gates} == {"8" * 16}
    assert any(f"-{trace}-" in asked["traceparent"] for asked in collector.asked)


def test_a_refused_call_is_a_failed_span_with_its_code(server: LiveServer, collector: Collector) -> None:
    trace = "1" * 32
    server.request("GET", "executions/r_nothing", headers={"traceparent": f"00-{trace}-{'2' * 16}-01"})
    wait_until(lambda: collector.spans_of(trace))
    [span] = collector.spans_of(trace).values()
    assert (span.status.code, span.status.message) == (2, "EXECUTION_NOT_FOUND")
    assert attributes_of(span)["penstock.surface"] == "rest"


def test_metrics_have_the_names_that_prometheus_reads_and_log_lines_have_the_id_of_the_request(
    server: LiveServer, collector: Collector
) -> None:
    answer = server.request("POST", "workflows/nothing/executions", {}, headers={"X-Request-Id": "of-this-test"})
    assert answer.status == 404
    wait_until(lambda: any(attributes_of(line).get("request_id") == "of-this-test" for line in list(collector.logs)))
    [line] = [line for line in collector.logs if attributes_of(line).get("request_id") == "of-this-test"]
    assert (line.body.string_value, line.severity_text) == ("request", "INFO")
    wait_until(lambda: {"penstock_gate_calls", "penstock_runs_started"} <= set(collector.metrics))

    def codes() -> set[str]:
        return {attributes_of(point)["code"] for point in collector.metrics["penstock_gate_calls"].sum.data_points}

    wait_until(lambda: answer.json()["code"] in codes())
    assert collector.metrics["penstock_gate_calls"].sum.is_monotonic
    durations = collector.metrics["penstock_gate_call_duration_seconds"].histogram.data_points
    assert all(sum(point.bucket_counts) == point.count for point in durations)
    page = server.request("GET", "/metrics").body.decode()
    for name, metric in collector.metrics.items():
        assert f"# HELP {name}" in page or f"# HELP {name}_total" in page, name
        assert metric.description
