"""The test cases of a document: scripts for dry runs, and the comparison of the outcome with what is expected.

Above it: ``penstock test``, ``penstock workflow simulate --case``, the tests of the examples. Below it: `dry_run`. It
reads cases that the checks of `definitions` accepted. The comparison is strict: values must match exactly, and an
unknown expectation counts as a difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.agents.expansion import expanded_case
from penstock.definitions.durations import parse_native_duration_ms
from penstock.definitions.jq.expressions import Evaluator
from penstock.definitions.model import Workflow
from penstock.engine.records import events
from penstock.engine.status import is_status
from penstock.runtime.simulation.dry_run import Script, Signal, SimulationRefused, SimulationReport, simulate

__all__ = ["CaseReport", "Difference", "differences", "run_case", "script_of_case", "unused_parts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One difference between a dry run and a case's expectation; `note` explains what the two values do not show."""

    place: str
    expected: JsonValue = None
    actual: JsonValue = None
    note: str | None = None

    def to_json(self) -> JsonObject:
        """Return the difference as JSON."""
        message: JsonObject = {"place": self.place, "expected": self.expected, "actual": self.actual}
        return message if self.note is None else {**message, "note": self.note}


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseReport:
    """The outcome of a case. `unused` are parts of its script that were not needed."""

    name: str
    skipped: bool = False
    differences: tuple[Difference, ...] = ()
    unused: tuple[str, ...] = ()
    run: SimulationReport | SimulationRefused | None = None

    @property
    def passed(self) -> bool:
        """Whether the case was run and everything is as expected."""
        return not self.skipped and not self.differences


def run_case(
    workflow: Workflow,
    case: JsonObject,
    *,
    workflows: Mapping[str, Workflow] | None = None,
    evaluator: Evaluator | None = None,
) -> CaseReport:
    """Run one case in memory and compare; `workflows` are the definitions of child runs, by name."""
    name = str(case.get("name"))
    if case.get("skip") is True:
        return CaseReport(name=name, skipped=True)
    script = script_of_case(expanded_case(workflow.document, case), workflows)
    run = simulate(workflow, case.get("input", {}), script, evaluator=evaluator)
    return CaseReport(
        name=name,
        differences=tuple(differences(_object(case.get("expect")), run)),
        unused=tuple(unused_parts(script, run)),
        run=run,
    )


# --- scripts -------------------------------------------------------------------------------------


def script_of_case(case: JsonObject, workflows: Mapping[str, Workflow] | None = None) -> Script:
    """Build the script of one test case; `workflows` are the definitions of child runs, by name."""
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
    """Parse a signal; `after` is a duration if it parses as one, and a node id otherwise."""
    name, payload, after = str(item.get("name")), item.get("payload"), item.get("after")
    if isinstance(after, float):
        after = int(after)
    after_ms = parse_native_duration_ms(after) if isinstance(after, str | int) else None
    if after_ms is None and isinstance(after, str):
        return Signal(name=name, payload=payload, after_node=after)
    return Signal(name=name, payload=payload, after_ms=after_ms)


# --- comparison ----------------------------------------------------------------------------------


def differences(expect: JsonObject, run: SimulationReport | SimulationRefused) -> Iterator[Difference]:
    """Yield every difference between a dry run and a case's expectation. A refused start counts as a failed run."""
    report = run if isinstance(run, SimulationReport) else _as_failed(run)
    for key, wanted in expect.items():
        compare = _COMPARISONS.get(key)
        if compare is None:
            yield Difference(place=key, expected=wanted, note="this expectation is not understood")
        else:
            yield from compare(wanted, report)


def unused_parts(script: Script, run: SimulationReport | SimulationRefused) -> Iterator[str]:
    """Yield the unused parts of a script. They may hide that the run took another path than its author thought."""
    report = run if isinstance(run, SimulationReport) else _as_failed(run)
    visited = {*report.path, *(line.node_id for line in report.trace)}  # the trace includes child runs
    for kind, names in (("mock", script.mocks), ("answer", script.answers), ("time-out", sorted(script.time_outs))):
        yield from (f"{kind} of {name}" for name in names if name not in visited)
    if any(line.depth for line in report.trace):
        return  # the records here do not show which signals a child run received
    taken = sum(record.body_type in (events.SignalReceived, events.SignalBuffered) for record in report.records)
    # A buffered signal that is received later counts twice, so only too low a count is certain.
    if taken < len(script.signals):
        yield f"{len(script.signals) - taken} of {len(script.signals)} signals"


def _as_failed(refused: SimulationRefused) -> SimulationReport:
    return SimulationReport(
        status="failed",
        result=None,
        error={"code": refused.code, "message": refused.message, "node": None},
        path=(),
        state=None,
        trace=(),
        records=(),
        elapsed_ms=0,
        waiting_for=(),
    )


def _equal(place: str, wanted: JsonValue, given: JsonValue) -> Iterator[Difference]:
    """Compare exactly, and report the innermost places that differ."""
    if isinstance(wanted, dict) and isinstance(given, dict):
        for name in dict.fromkeys((*wanted, *given)):
            inner = f"{place}.{name}"
            if name not in given:
                yield Difference(place=inner, expected=wanted[name], note="missing")
            elif name not in wanted:
                yield Difference(place=inner, actual=given[name], note="not expected")
            else:
                yield from _equal(inner, wanted[name], given[name])
    elif not _same(wanted, given):
        yield Difference(place=place, expected=wanted, actual=given)


def _same(wanted: JsonValue, given: JsonValue) -> bool:
    """Compare JSON values: Python takes true for 1, JSON does not; 1 and 1.0 are the same JSON number."""
    if isinstance(wanted, bool) or isinstance(given, bool):
        return wanted is given
    if isinstance(wanted, list) and isinstance(given, list):
        return len(wanted) == len(given) and all(map(_same, wanted, given))
    if isinstance(wanted, dict) and isinstance(given, dict):
        return wanted.keys() == given.keys() and all(_same(wanted[name], given[name]) for name in wanted)
    return wanted == given


def _status(wanted: JsonValue, report: SimulationReport) -> Iterator[Difference]:
    if isinstance(wanted, str) and is_status(wanted, report.status):
        return
    note = None
    if report.error is not None:
        note = f"{report.error['code']}: {report.error['message']}"
    elif report.waiting_for:
        note = "; ".join(f"waits at {item['node']} for {item['for']}" for item in report.waiting_for)
    yield Difference(place="status", expected=wanted, actual=report.status, note=note)


def _output(wanted: JsonValue, report: SimulationReport) -> Iterator[Difference]:
    yield from _equal("output", wanted, report.result)


def _path(wanted: JsonValue, report: SimulationReport) -> Iterator[Difference]:
    yield from _equal("path", wanted, list(report.path))


def _error(wanted: JsonValue, report: SimulationReport) -> Iterator[Difference]:
    if report.error is None or not isinstance(wanted, dict):
        yield Difference(place="error", expected=wanted, actual=report.error)
        return
    for key, value in wanted.items():
        if key in ("code", "message"):
            yield from _equal(f"error.{key}", value, report.error[key])
        else:
            yield Difference(place=f"error.{key}", expected=value, note="this expectation is not understood")


def _state(wanted: JsonValue, report: SimulationReport) -> Iterator[Difference]:
    state = report.state
    if not isinstance(wanted, dict) or not isinstance(state, dict):
        yield Difference(place="state", expected=wanted, actual=state)
        return
    for key, value in wanted.items():
        if key in state:
            yield from _equal(f"state.{key}", value, state[key])
        else:
            yield Difference(place=f"state.{key}", expected=value, note="missing")


def _continues_with(wanted: JsonValue, report: SimulationReport) -> Iterator[Difference]:
    if report.continuation is None:
        note = "it did not continue as a new run"
        yield Difference(place="continues_with", expected=wanted, actual=report.status, note=note)
    else:
        yield from _equal("continues_with", wanted, report.continuation.input)


_COMPARISONS: dict[str, Callable[[JsonValue, SimulationReport], Iterator[Difference]]] = {
    "status": _status,
    "output": _output,
    "path": _path,
    "error": _error,
    "state": _state,
    "continues_with": _continues_with,
}
