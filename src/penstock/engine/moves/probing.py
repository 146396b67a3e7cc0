"""Find the shapes of moves by asking `decide` what it records for recognisable values.

A *probe* is a decision on an artificial state whose run id, visits, times and results occur nowhere else. Where these
markers turn up in the records, the values of any other run would be. Every probe is made twice, on states that differ
in everything that may differ between plain moves. If the two results disagree (a number from the history, a mark,
another record), the move has no shape and is left to `decide`.

So the records of a move come from the transition tables and the walk over them, and are not written down a second time.

Above it: `plan`. Below it: `decide`, `pending`.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.model import Node, Workflow
from penstock.engine.decide import decide
from penstock.engine.effects import Effect
from penstock.engine.inputs import CompleteActivity, StartRun
from penstock.engine.outcomes import Accepted
from penstock.engine.pages import Field, RecordShape, Shape
from penstock.engine.pending import pending
from penstock.engine.records import Record, commands, events
from penstock.engine.state import Activation, BufferedSignal, CompensationEntry, RunState, Scope
from penstock.engine.transitions import Phase, RunStatus

__all__ = ["BEGIN_VALUES", "MADE", "MOVE_VALUES", "Markers", "Probe", "probe_begin", "probe_move"]

# The values of a move, in the order in which a page stores them. `made`: the rendered arguments or output.
MOVE_VALUES = ("visit", "attempt", "next_visit", "result", "made")
BEGIN_VALUES = ("input", "mode", "circumstances", "made")

# The only records that a plain move may write.
_PLAIN = frozenset(
    {
        events.ExecutionStarted,
        events.ActivityCompleted,
        commands.CompleteNode,
        commands.ScheduleNode,
        events.NodeScheduled,
        events.ActivityRequested,
        events.ExecutionCompleted,
    }
)


MADE = "\0made"
"""The marker that a probed workflow has in place of rendered arguments or output."""


class Markers(msgspec.Struct, frozen=True):
    """Values that occur nowhere else, so that they can be recognised in records."""

    run_id: str
    at: int
    visit: int
    attempt: int
    next_visit: int
    result: str
    input: JsonObject
    mode: str


_FIRST, _SECOND = (
    Markers(
        run_id=f"\0run {name}",
        at=number * 10_007,
        visit=number + 101,
        attempt=number + 203,
        next_visit=number + 307,
        result=f"\0result {name}",
        input={f"\0input {name}": name},
        mode=f"\0mode {name}",
    )
    for name, number in (("one", 7_000_000_000), ("two", 9_000_000_000))
)


class Probe(msgspec.Struct, frozen=True):
    """The result of a probe: the shape of the records, the states before and after, and the effects due afterwards."""

    shape: Shape
    before: RunState
    after: RunState
    effects: tuple[Effect, ...]


def _state(node: Node, target: str, markers: Markers, *, first: bool) -> RunState:
    """Build a state in which an activity is in progress at the root. The two states differ wherever they may."""
    activation = Activation(
        node_id=node.id,
        visit=markers.visit,
        phase=Phase.REQUESTED,
        scheduled_at=markers.at - 5,
        attempt=markers.attempt,
        arguments=None if first else "arguments",
    )
    visits = {node.id: markers.visit, target: markers.next_visit - 1}
    state = RunState(
        run_id=markers.run_id,
        status=RunStatus.RUNNING,
        native=True,
        started_at=markers.at - 11,
        updated_at=markers.at - 3,
        scopes={0: Scope(serial=0, body="", next=node.id, activation=activation)},
        next_serial=1,
        visits=visits,
        active={activation.key: 0},
        last_node_id=node.id,
    )
    if first:
        return state
    return replace(
        state,
        mode="host_mediated",
        attempt=3,
        tenant="another",
        client_kinds=("roots",),
        started_by="somebody",
        starter={"kind": "some"},
        client_questions=2,
        untrusted=True,
        parent_run_id="parent",
        depth=2,
        input=markers.input,
        chain_deadline=markers.at * 2,
        deadline=markers.at * 2,
        generation=4,
        continued_from="before",
        seq=1_234,
        history_bytes=56_789,
        commands=321,
        steps=111,
        values={"some": "value"},
        next_serial=9,
        signals=(BufferedSignal("news", "told", "s-1"),),
        signal_ids={"s-1": None},
        compensations=(CompensationEntry(node.id, 1, "undo"),),
        workflow_error_routed=True,
        error={"code": "E"},
        nodes_since_checkpoint=77,
    )


def probe_move(workflow: Workflow, node: Node, target: str) -> Probe | None:
    """Probe a result of an activity that leads to a node; return None if that is not a plain move."""
    found: list[Probe] = []
    for markers in (_FIRST, _SECOND):
        state = _state(node, target, markers, first=markers is _FIRST)
        next_visit = state.visits[target] + 1  # an activity may follow itself
        given = CompleteActivity(
            at=markers.at,
            node_id=node.id,
            visit=markers.visit,
            attempt=markers.attempt,
            result=markers.result,
        )
        values = (markers.visit, markers.attempt, next_visit, markers.result, MADE)
        decision = decide(workflow, state, given)
        if not isinstance(decision, Accepted) or not _is_plain(decision):
            return None
        shape = _shape(decision.records, markers, values)
        effects = tuple(pending(workflow, decision.state, markers.at))
        found.append(Probe(shape, state, decision.state, effects))
    return found[0] if _agree(*found) else None


def probe_begin(workflow: Workflow) -> Probe | None:
    """Probe a start; return None if that is not a plain move."""
    found: list[Probe] = []
    for markers in (_FIRST, _SECOND):
        given = StartRun(at=markers.at, run_id=markers.run_id, input=markers.input, mode=markers.mode)
        if markers is _SECOND:
            given = replace(
                given,
                tenant="another",
                started_by="somebody",
                starter={"kind": "some"},
                untrusted=True,
                run_attempt=3,
                timeout_ms=markers.at,
            )
        decision = decide(workflow, RunState(), given)
        if not isinstance(decision, Accepted) or not _is_plain(decision):
            return None
        values = (markers.input, markers.mode, None, MADE)
        shape = _with_circumstances(_shape(decision.records, markers, values), found[0].shape if found else None)
        if shape is None:
            return None
        effects = tuple(pending(workflow, decision.state, markers.at))
        found.append(Probe(shape, RunState(), decision.state, effects))
    return found[0] if _agree(*found) else None


def _is_plain(decision: Accepted) -> bool:
    return not decision.state.unsettled and all(record.body_type in _PLAIN for record in decision.records)


def _agree(first: Probe, second: Probe) -> bool:
    return first.shape == second.shape and _steps(first) == _steps(second) and len(first.effects) == len(second.effects)


def _steps(found: Probe) -> tuple[int, ...]:
    before, after = found.before, found.after
    return (
        after.seq - before.seq,
        after.commands - before.commands,
        after.steps - before.steps,
        after.nodes_since_checkpoint - before.nodes_since_checkpoint,
    )


def _shape(records: tuple[Record, ...], markers: Markers, values: tuple[JsonValue, ...]) -> Shape:
    return Shape(
        tuple(
            RecordShape(
                record.kind,
                record.name,
                tuple(_field(name, value, markers, values) for name, value in record.payload.items()),
            )
            for record in records
        )
    )


def _field(name: str, value: JsonValue, markers: Markers, values: tuple[JsonValue, ...]) -> Field:
    if value is markers.run_id:
        return Field(name, "run")
    if name == "deadline" and type(value) is int:
        return Field(name, "after", value - markers.at)
    if name == "inputKeys" and value == list(markers.input):
        return Field(name, "names", 0)
    for number, given in enumerate(values):
        # Numbers are compared by value. Texts are compared by identity: a text of the document may equal a marker.
        if given is not None and (value is given or (type(given) is int and type(value) is int and value == given)):
            return Field(name, "given", number)
    return Field(name, "constant", value)


def _with_circumstances(shape: Shape, usual: Shape | None) -> Shape | None:
    """Return the shape of a start with a place for its circumstances, directly before the run id."""
    first, *rest = shape.records
    *fields, run = first.fields
    if usual is not None:
        # The additional keys of an unusual start must be there.
        expected = len(usual.records[0].fields) - 2
        fields = fields[:expected]
    if run.source != "run":
        return None
    place = Field("", "members", BEGIN_VALUES.index("circumstances"))
    return Shape((replace(first, fields=(*fields, place, run)), *rest))
