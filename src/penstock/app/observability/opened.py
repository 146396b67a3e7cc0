"""Observability of one process, from opening its store to closing it.

Above it: `app.penstock`, `app.gate`, `app.serving`. Below it: `choices`, `traced`; `otlp` only if a signal is chosen.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from penstock.app.observability.choices import Signal, chosen_signals
from penstock.app.observability.traced import Tracing, ended_run
from penstock.base.clock import Clock
from penstock.base.errors import Rejected, Unavailable
from penstock.base.lazy_import import lazy_import
from penstock.operations.telemetry.metrics import Telemetry
from penstock.runtime.extras import install_hint
from penstock.runtime.ports.host import Committed

if TYPE_CHECKING:
    from penstock.app.observability import otlp
else:
    otlp = lazy_import("penstock.app.observability.otlp")

__all__ = ["Observability", "export_numbers", "open_observability", "traced_commits"]

_INTERVAL = "OTEL_METRIC_EXPORT_INTERVAL"
_INTERVAL_MS = 60_000
_LIBRARIES = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")


@dataclass(frozen=True, slots=True, kw_only=True)
class Observability:
    """What is exported, and the spans of this process."""

    signals: frozenset[Signal] = frozenset()
    tracing: Tracing | None = None


@asynccontextmanager
async def open_observability(environment: Mapping[str, str] | None = None) -> AsyncIterator[Observability]:
    """Export traces and logs until the block ends, if the environment asks for them; else do nothing.

    Raise `Unavailable` if it asks for them and the libraries are not installed.
    """
    signals = chosen_signals(os.environ if environment is None else environment)
    if not signals:
        yield Observability()
        return
    if any(not _is_installed(library) for library in _LIBRARIES):
        wanted = ", ".join(sorted(signals))
        message = f"the environment asks for OpenTelemetry ({wanted}), but its libraries are not installed"
        raise Unavailable("EXTRA_NOT_INSTALLED", message, f"{install_hint('otel')}, or set OTEL_SDK_DISABLED=true")
    resource = otlp.own_resource()
    tracing = otlp.OtlpTracing(resource) if "traces" in signals else None
    handler = otlp.OtlpLogHandler(resource) if "logs" in signals else None
    logger = logging.getLogger("penstock")
    if handler is not None:
        logger.addHandler(handler)
    try:
        yield Observability(signals=signals, tracing=tracing)
    finally:
        if handler is not None:
            logger.removeHandler(handler)
            await asyncio.to_thread(handler.close)
        if tracing is not None:
            await asyncio.to_thread(tracing.close)


def _is_installed(library: str) -> bool:
    try:
        return find_spec(library) is not None
    except ModuleNotFoundError:
        return False


def traced_commits(tracing: Tracing, observe: Callable[[Committed], None]) -> Callable[[Committed], None]:
    """Return a listener for commits that exports the span of a run when it has ended."""

    def observed(committed: Committed) -> None:
        run = ended_run(committed)
        if run is not None:
            tracing.run_ended(run)
        observe(committed)

    return observed


@asynccontextmanager
async def export_numbers(seen: Observability, telemetry: Telemetry, clock: Clock) -> AsyncIterator[None]:
    """Export the metrics of this process until the block ends, if they are chosen."""
    if "metrics" not in seen.signals:
        yield
        return
    seconds = _interval_ms() / 1000
    metrics = otlp.OtlpMetrics(otlp.own_resource(), telemetry, clock.now_ms())

    async def export() -> None:
        while True:
            await asyncio.sleep(seconds)
            await asyncio.to_thread(metrics.send, clock.now_ms())

    exporting = asyncio.create_task(export())
    try:
        yield
    finally:
        exporting.cancel()
        with suppress(asyncio.CancelledError):
            await exporting
        await asyncio.to_thread(metrics.send, clock.now_ms())
        await asyncio.to_thread(metrics.close)


def _interval_ms() -> int:
    text = os.environ.get(_INTERVAL, "").strip()
    if not text:
        return _INTERVAL_MS
    if not text.isdecimal() or int(text) < 1:
        raise Rejected("OTEL_NOT_SUPPORTED", f"{_INTERVAL} is {text[:40]!r}", "set it to a number of milliseconds")
    return int(text)
