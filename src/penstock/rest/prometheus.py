"""Metrics as Prometheus reads them, and as numbers by name.

`metrics` loads this module when somebody first asks for metrics: the library takes longer to import than a server may
take to start. It has a registry of its own, so that nothing else in the process is affected.
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
    """What a process counts, rendered."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_Counted(telemetry))
        # Memory, processor time, open files, start: read from the operating system at each look.
        ProcessCollector(namespace="penstock", registry=self._registry)

    def text(self) -> bytes:
        """The text that Prometheus scrapes."""
        return generate_latest(self._registry)

    def numbers(self) -> dict[str, float]:
        """Every number by its name and labels, as Prometheus writes them; without the buckets of histograms."""
        found = {}
        for family in self._registry.collect():
            for sample in family.samples:
                if not sample.name.endswith(("_bucket", "_created")):
                    found[_written(sample.name, sample.labels)] = float(sample.value)
        return found


def _written(name: str, labels: dict[str, str]) -> str:
    if not labels:
        return name
    pairs = ",".join(f'{label}="{value}"' for label, value in sorted(labels.items()))
    return f"{name}{{{pairs}}}"


class _Counted(Collector):
    """Hands the library what was counted, when it asks."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry

    def collect(self) -> Iterator[Metric]:
        """Every family."""
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
                    yield _looked_up(family)


def _histogram(family: Histogram) -> Metric:
    found = HistogramMetricFamily(family.name, family.help, labels=family.labels)
    bounds = [*(repr(bound) for bound in family.bounds), "+Inf"]
    for labels, (counts, total) in sorted(family.values.items()):
        buckets: list[Any] = list(zip(bounds, accumulate(counts), strict=True))
        found.add_metric(labels, buckets, total[0])
    return found


def _looked_up(family: Gauge) -> Metric:
    kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    found = kind(family.name, family.help, labels=family.labels)
    for labels, value in sorted(family.read().items()):
        found.add_metric(labels, value)
    return found
