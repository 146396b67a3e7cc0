"""Which signals are exported: read from the environment variables that OpenTelemetry defines.

A signal is exported if `OTEL_EXPORTER_OTLP_ENDPOINT`, or the variable for that signal, names a collector, or if
`OTEL_TRACES_EXPORTER` (`…_METRICS_…`, `…_LOGS_…`) says `otlp`. `none` switches a signal off, `OTEL_SDK_DISABLED` all
of them. Anything else that would be ignored silently is refused.

Above it: `opened`. Below it: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

from penstock.base.errors import Rejected

__all__ = ["Signal", "chosen_signals"]

Signal: TypeAlias = Literal["traces", "metrics", "logs"]
_SIGNALS: tuple[Signal, ...] = get_args(Signal)
_PROTOCOL = "http/protobuf"


def chosen_signals(environment: Mapping[str, str]) -> frozenset[Signal]:
    """Return the signals that are exported; raise `Rejected` if a variable asks for something unsupported."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return frozenset()
    found = frozenset(signal for signal in _SIGNALS if _is_chosen(environment, signal))
    for name in ("OTEL_EXPORTER_OTLP_PROTOCOL", *(f"OTEL_EXPORTER_OTLP_{one.upper()}_PROTOCOL" for one in found)):
        protocol = environment.get(name, "").strip()
        if found and protocol not in ("", _PROTOCOL):
            raise _unknown(name, protocol, _PROTOCOL)
    return found


def _is_chosen(environment: Mapping[str, str], signal: Signal) -> bool:
    name = f"OTEL_{signal.upper()}_EXPORTER"
    match environment.get(name, "").strip():
        case "none":
            return False
        case "otlp":
            return True
        case "":
            places = ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT")
            return any(environment.get(place, "").strip() for place in places)
        case other:
            raise _unknown(name, other, "otlp or none")


def _unknown(name: str, value: str, known: str) -> Rejected:
    return Rejected("OTEL_NOT_SUPPORTED", f"{name} is {value[:40]!r}, which is not supported", f"set it to {known}")
