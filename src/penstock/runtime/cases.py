"""The test cases of a document as scripts of a dry run.

Above it: ``penstock simulate --case`` and whoever runs the tests of documents. Below it: `simulation`. It reads cases
that the checks of `definitions` accepted; what a case expects is compared by its caller.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.durations import parse_native_duration_ms
from penstock.definitions.model import Workflow
from penstock.runtime.simulation import Script, Signal

__all__ = ["script_of_case"]


def script_of_case(case: JsonObject, workflows: Mapping[str, Workflow] | None = None) -> Script:
    """What the world answers in one test case; `workflows` are the definitions of child runs, by name."""
    signals, time_outs = case.get("signals"), case.get("time_outs")
    return Script(
        mocks=_object(case.get("mock")),
        answers=_object(case.get("answers")),
        signals=tuple(_signal(_object(item)) for item in signals) if isinstance(signals, list) else (),
        time_outs=frozenset(str(name) for name in time_outs) if isinstance(time_outs, list) else frozenset(),
        workflows=workflows or {},
    )


def _object(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _signal(item: JsonObject) -> Signal:
    """A signal; `after` is a length of time if it reads as one, and the id of a node otherwise."""
    name, payload, after = str(item.get("name")), item.get("payload"), item.get("after")
    if isinstance(after, float):
        after = int(after)
    after_ms = parse_native_duration_ms(after) if isinstance(after, str | int) else None
    if after_ms is None and isinstance(after, str):
        return Signal(name=name, payload=payload, after_node=after)
    return Signal(name=name, payload=payload, after_ms=after_ms)
