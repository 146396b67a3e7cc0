"""What a server measures besides calls: its runs, its store, its streams, and its build.

Above it: `server`. Below it: `operations.telemetry`, the open store.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from penstock import __version__
from penstock.app.penstock import Penstock
from penstock.operations.gate.context import Services
from penstock.operations.telemetry.metrics import Gauge, Telemetry
from penstock.runtime.ports.host import Committed
from penstock.runtime.ports.models import ModelUse

__all__ = ["export_metrics"]


@contextmanager
def export_metrics(penstock: Penstock, services: Services) -> Iterator[None]:
    """Count what the driver stores, and export the current values of gauges, until the block ends."""
    services.telemetry.gauges.extend(_gauges(penstock, services))
    penstock.models.observe = partial(_model_used, services.telemetry)
    driver, record = penstock.driver, services.telemetry.recorded
    if driver is None:
        yield
        return
    told_before = driver.observe

    def observe(committed: Committed) -> None:
        record(committed.names)
        told_before(committed)

    driver.observe = observe
    try:
        yield
    finally:
        driver.observe = told_before


def _model_used(telemetry: Telemetry, use: ModelUse) -> None:
    cost = None if use.cost is None else float(use.cost)
    telemetry.model_used(
        use.provider, use.code, input_tokens=use.input_tokens, output_tokens=use.output_tokens, cost=cost
    )


def _started(services: Services) -> dict[tuple[str, ...], float]:
    started_ms = services.information.get("started_ms")
    return {(): started_ms / 1000} if isinstance(started_ms, int | float) else {}


def _run_gauges(penstock: Penstock) -> list[Gauge]:
    return [
        Gauge(
            name="penstock_runs_abandoned",
            help="Runs with unattended work that the watchdog of this process continued.",
            kind="counter",
            read=lambda: {(): float(penstock.driver.abandoned.found if penstock.driver is not None else 0)},
        ),
        Gauge(
            name="penstock_runs_stuck",
            help="Runs that the watchdog continued several times and that have not moved.",
            read=lambda: {(): float(len(penstock.driver.abandoned.stuck) if penstock.driver is not None else 0)},
        ),
    ]


def _gauges(penstock: Penstock, services: Services) -> list[Gauge]:
    build = (__version__, platform.python_version())
    found = [
        *_run_gauges(penstock),
        Gauge(
            name="penstock_build_info",
            help="Which build this is; always 1.",
            labels=("version", "python"),
            read=lambda: {build: 1.0},
        ),
        Gauge(
            name="penstock_start_duration_seconds",
            help="From the command to the first request that could be answered.",
            read=lambda: _started(services),
        ),
        Gauge(
            name="penstock_stream_active_connections",
            help="Streams that are open.",
            labels=("kind",),
            read=lambda: {("execution",): float(services.open_streams.count)},
        ),
    ]
    telemetry = services.telemetry
    found.extend(
        (
            Gauge(
                name="penstock_event_loop_stall_max_seconds",
                help="The longest time that the event loop was blocked since the start.",
                read=lambda: {(): telemetry.loop_stall_max_seconds},
            ),
            Gauge(
                name="penstock_mcp_sessions",
                help="Sessions of MCP clients of the handshake era.",
                read=lambda: {(): float(telemetry.mcp_sessions())},
            ),
            Gauge(
                name="penstock_mcp_listening",
                help="MCP clients that listen for changes.",
                read=lambda: {(): float(telemetry.mcp_listening)},
            ),
        )
    )
    counts = penstock.storage.counts
    found.extend(
        (
            Gauge(
                name="penstock_store_commits",
                help="Transactions that the store has made durable.",
                kind="counter",
                read=lambda: {(): float(counts().get("commits", 0))},
            ),
            Gauge(
                name="penstock_store_jobs",
                help="Changes that were in those transactions.",
                kind="counter",
                read=lambda: {(): float(counts().get("jobs", 0))},
            ),
        )
    )
    return found
