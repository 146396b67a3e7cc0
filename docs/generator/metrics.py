"""The page about metrics: names, kinds and labels as a server has them, and what each says."""

import asyncio
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from docs.generator.markdown import code, page, table
from penstock.app.penstock import Penstock
from penstock.app.serving.server import ServerOptions, open_application
from penstock.rest.prometheus import PrometheusRenderer

__all__ = ["METRICS", "Metric", "metrics_of_server", "metrics_page"]

_TYPE: Final = re.compile(r"^# TYPE (\w+) (\w+)$", re.MULTILINE)
# What each metric says, and what its labels can be.
METRICS: Final = {
    "penstock_activities_total": "Attempts of activities, by outcome; `unknown` ones wait for a decision.",
    "penstock_backup_failures_total": "Scheduled backups that failed, and old ones that could not be deleted.",
    "penstock_backup_last_duration_seconds": "How long the last scheduled backup of this process took.",
    "penstock_backup_last_size_bytes": "The size of the last scheduled backup of this process.",
    "penstock_backup_last_success_timestamp_seconds": "When the last scheduled backup was made; 0 if there is none.",
    "penstock_build_info": "Which build it is; always 1.",
    "penstock_event_loop_stall_max_seconds": "The longest pause of the event loop since the start.",
    "penstock_event_loop_stall_seconds": "Pauses of the event loop above 100 ms; should not grow.",
    "penstock_gate_call_duration_seconds": "How long calls took.",
    "penstock_gate_calls_total": (
        "Calls of operations on every surface; `outcome` is `answered` or `refused`, `code` that of the refusal."
    ),
    "penstock_http_request_duration_seconds": "From the head of a request to the end of its answer, streams apart.",
    "penstock_http_requests_total": "Answered requests. `route` is the template, never the requested path.",
    "penstock_limited_total": "Calls that a limit or a quota refused.",
    "penstock_mcp_listening": "MCP clients that listen for changes.",
    "penstock_mcp_request_duration_seconds": "How long MCP requests took.",
    "penstock_mcp_requests_total": "MCP requests; `status` is `ok`, `error` or `left`.",
    "penstock_mcp_sessions": "MCP clients with a session.",
    "penstock_mcp_tool_calls_total": (
        "Calls of tools; `status` is `ok`, `error` (the model sees why), `refused`, `task`, `input_required` or `left`."
    ),
    "penstock_model_attempts_total": ("Requests to models; `outcome` is `answered`, `failed`, `timeout` or `limited`."),
    "penstock_model_cost_dollars_total": "What models cost, as far as their prices are known.",
    "penstock_model_tokens_total": "Tokens of models, failed attempts included.",
    "penstock_process_cpu_seconds_total": "Processor time of the process.",
    "penstock_process_max_fds": "How many files the process may open.",
    "penstock_process_open_fds": "Open files of the process.",
    "penstock_process_resident_memory_bytes": "Memory of the process.",
    "penstock_process_start_time_seconds": "When the process started.",
    "penstock_process_virtual_memory_bytes": "Virtual memory of the process.",
    "penstock_runs_abandoned_total": (
        "Runs with work that no task in the process did, until the watchdog resumed them; should be 0."
    ),
    "penstock_runs_ended_total": "Runs that ended in this process.",
    "penstock_runs_started_total": "Runs that this process started.",
    "penstock_runs_stuck": "Runs that the watchdog resumed several times and that have not moved; should be 0.",
    "penstock_start_duration_seconds": "From the command to the first request that could be answered.",
    "penstock_store_commits_total": "Transactions of the store.",
    "penstock_store_jobs_total": "Changes in these transactions.",
    "penstock_stream_active_connections": "Open streams.",
    "penstock_stream_connection_duration_seconds": "How long streams were open.",
    "penstock_stream_errors_total": "Streams that broke or were cut off.",
    "penstock_stream_events_total": "Events sent.",
    "penstock_stream_time_to_first_event_seconds": "From opening a stream to its first event.",
    "penstock_watched_files_failing": (
        "1 if the newest files of a source (policies, graphs, workflows) are not in force, else 0."
    ),
    "penstock_watched_files_failures_total": "Attempts to read changed files that failed.",
    "penstock_workflow_files_quarantined": "Workflow files that are not in use, because they have mistakes.",
}


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of a server."""

    kind: str
    labels: tuple[str, ...]


def metrics_page() -> str:
    """Every metric of `/metrics`."""
    return page("Metrics", "`docs/generator/metrics.py` and a server", _parts())


def metrics_of_server() -> dict[str, Metric]:
    """The metrics of an open server, sorted by name."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_open_and_read(Path(folder)))


async def _open_and_read(folder: Path) -> dict[str, Metric]:
    async with (
        Penstock.open(folder / "penstock.db") as penstock,
        open_application(penstock, ServerOptions()) as (_, gate),
    ):
        gate.services.information["started_ms"] = 0  # only a server that was started by a command has it
        telemetry = gate.services.telemetry
        labels = {family.name: tuple(family.labels) for family in telemetry.families()}
        text = PrometheusRenderer(telemetry).text().decode()
    found = {
        name: Metric(kind, labels.get(name, labels.get(name.removesuffix("_total"), ())))
        for name, kind in _TYPE.findall(text)
    }
    return dict(sorted(found.items()))


def _parts() -> Iterator[str]:
    yield (
        "`GET /metrics` has these metrics for Prometheus. OpenTelemetry exports them under the same names, counters "
        "without `_total`. [Monitor a server](../guides/monitoring.md) shows how to scrape them. A histogram `NAME` "
        "has the samples `NAME_bucket`, `NAME_sum` and `NAME_count`."
    )
    rows = (
        [code(name), metric.kind, ", ".join(map(code, metric.labels)), METRICS[name]]
        for name, metric in metrics_of_server().items()
    )
    yield table(["Metric", "Kind", "Labels", "What it says"], rows)
