"""Metrics in the Prometheus text format, and as numbers by name.

`metrics` imports this module on first use: importing the Prometheus library takes longer than a server may take to
start. It uses its own registry, so that nothing else in the process is affected.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from penstock.operations.telemetry.metrics import Counter, Gauge, Histogram, Telemetry

__all__ = ["PrometheusRenderer"]


class PrometheusRenderer:
    """Renders the metrics of a process."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_TelemetryCollector(telemetry))
        # Memory, CPU time, open files, start time: read from the operating system at each scrape.
        ProcessCollector(namespace="penstock", registry=self._registry)

    def text(self) -> bytes:
        """Return the text that Prometheus scrapes."""
        return generate_latest(self._registry)

    def numbers(self) -> dict[str, float]:
        """Return every sample by name and labels, as Prometheus writes them, without histogram buckets."""
        found = {}
        for family in self._registry.collect():
            for sample in family.samples:
                if not sample.name.endswith(("_bucket", "_created")):
                    found[_sample_name(sample.name, sample.labels)] = float(sample.value)
        return found


def _sample_name(name: str, labels: dict[str, str]) -> str:
    if not labels:
        return name
    pairs = ",".join(f'{label}="{value}"' for label, value in sorted(labels.items()))
    return f"{name}{{{pairs}}}"


class _TelemetryCollector(Collector):
    """Gives the Prometheus library the current counts when it collects."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry

    def collect(self) -> Iterator[Metric]:
        """Yield every metric family."""
        for family in self._telemetry.families():
            match family:
                case Counter():
                    counted = CounterMetricFamily(family.name, family.help, labels=family.labels)
                    for labels, value in sorted(family.values.items()):
                        counted.add_metric(labels, value)
                    yield counted
                case Histogram():
                    yield _histogram(family)
                case Gauge():
                    yield _gauge(family)


def _histogram(family: Histogram) -> Metric:
    found = HistogramMetricFamily(family.name, family.help, labels=family.labels)
    bounds = [*(repr(bound) for bound in family.bounds), "+Inf"]
    for labels, (counts, total) in sorted(family.values.items()):
        buckets: list[Any] = list(zip(bounds, accumulate(counts), strict=True))
        found.add_metric(labels, buckets, total[0])
    return found


def _gauge(family: Gauge) -> Metric:
    kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    found = kind(family.name, family.help, labels=family.labels)
    for labels, value in sorted(family.read().items()):
        found.add_metric(labels, value)
    return found
