"""Which signals the environment asks for."""

from __future__ import annotations

import pytest

from penstock.app.observability.choices import chosen_signals
from penstock.base.errors import Rejected

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}
ALL = {"traces", "metrics", "logs"}


@pytest.mark.parametrize(
    ("environment", "signals"),
    [
        ({}, set()),
        ({"OTEL_SERVICE_NAME": "flows"}, set()),
        (ENDPOINT, ALL),
        ({**ENDPOINT, "OTEL_LOGS_EXPORTER": "none"}, {"traces", "metrics"}),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, {"traces"}),
        ({"OTEL_METRICS_EXPORTER": "otlp"}, {"metrics"}),
        ({**ENDPOINT, "OTEL_SDK_DISABLED": "True"}, set()),
        ({**ENDPOINT, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, ALL),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, set()),
    ],
)
def test_signals_are_chosen_by_the_usual_variables(environment: dict[str, str], signals: set[str]) -> None:
    assert chosen_signals(environment) == signals


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_TRACES_EXPORTER", "zipkin"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json"),
    ],
)
def test_what_is_asked_for_and_not_supported_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(Rejected) as refused:
        chosen_signals({**ENDPOINT, name: value})
    assert name in refused.value.message
