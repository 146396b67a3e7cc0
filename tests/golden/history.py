"""The form of a golden history: a document, every input that a run took with the rows it wrote, and what came of it.

One file is one run, one JSON value per line: a heading, then one line per input, then a portrait of the state. Rows
stand as the bytes that the wire carries, so that a change of a single byte is a difference. Files are only ever added:
a run that was written by any release must be readable by every later one.

Above it: the recorder and the tests. Below it: the engine's inputs, records and state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import msgspec

from penstock.base import limits
from penstock.base.json import JsonObject
from penstock.definitions.build.workflow import build_workflow
from penstock.definitions.model import Workflow
from penstock.engine import inputs
from penstock.engine.effects import Effect, WithdrawTask
from penstock.engine.pending import pending
from penstock.engine.records import Record, record_of, row_of
from penstock.engine.state import Activation, RunState
from penstock.engine.status import run_status
from penstock.engine.walk.timers import timers_of

__all__ = [
    "HISTORIES",
    "Golden",
    "Heading",
    "Step",
    "due_ids",
    "golden_files",
    "limited",
    "portrait",
    "read",
    "row_bytes",
    "step_of",
    "write",
]

HISTORIES = Path(__file__).parent / "histories"


class Heading(msgspec.Struct, frozen=True, kw_only=True):
    """What the history is of."""

    source: str
    format: str
    engine: str
    definition_hash: str
    document: dict[str, Any]
    limits: dict[str, int] = {}  # of `base.limits`, where the run was made to reach one


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One input and the rows that were stored for it; `cut`: a crash kept only the first of them."""

    type: str
    given: dict[str, Any]
    rows: tuple[msgspec.Raw, ...] = ()
    status: str = ""
    due: tuple[str, ...] = ()
    cut: bool = False

    def input(self) -> inputs.Input:
        """The input as the engine takes it."""
        given = dict(self.given)
        if "client_kinds" in given:
            given["client_kinds"] = tuple(given["client_kinds"])
        if "predecessor" in given:
            before = given["predecessor"]
            taken_over = {name: tuple(before[name]) for name in ("signals", "signal_ids")}
            given["predecessor"] = inputs.Predecessor(**{**before, **taken_over})
        return cast("inputs.Input", getattr(inputs, self.type)(**given))

    def records(self) -> list[Record]:
        """The rows as records."""
        return [record_of(msgspec.json.decode(row)) for row in self.rows]


class Golden(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded run."""

    heading: Heading
    steps: tuple[Step, ...]
    portrait: JsonObject

    def workflow(self) -> Workflow:
        """The definition, compiled by the code of today."""
        return build_workflow(self.heading.document)

    def records(self) -> list[Record]:
        """The whole history."""
        return [record for step in self.steps for record in step.records()]


def row_bytes(run_id: str, record: Record) -> bytes:
    """A record as the wire carries it."""
    return msgspec.json.encode(row_of(run_id, record))


def due_ids(workflow: Workflow, state: RunState, at: int) -> tuple[str, ...]:
    """The effects that are due, by id."""
    return tuple(effect.effect_id for effect in _due(workflow, state, at))


def _due(workflow: Workflow, state: RunState, at: int) -> list[Effect]:
    """Effects without withdrawals: those are newer than most recordings, and no record asks for them."""
    return [effect for effect in pending(workflow, state, at) if not isinstance(effect, WithdrawTask)]


def portrait(workflow: Workflow, state: RunState, at: int) -> JsonObject:
    """What can be known of a run from outside, in words that do not depend on how its state is kept."""
    effects = _due(workflow, state, at)
    drawn = {
        "runId": state.run_id,
        "status": run_status(state),
        "seq": state.seq,
        "tenant": state.tenant,
        "mode": state.mode,
        "attempt": state.attempt,
        "parent": state.parent_run_id,
        "depth": state.depth,
        "generation": state.generation,
        "continuedFrom": state.continued_from,
        "continuedAs": state.continued_as,
        "startedAt": state.started_at,
        "updatedAt": state.updated_at,
        "input": state.input,
        "values": state.values,
        "result": state.result,
        "failure": state.failure,
        "cancelReason": state.cancel_reason,
        "paused": state.paused,
        "commands": state.commands,
        "steps": state.steps,
        "visits": dict(sorted(state.visits.items())),
        "signals": state.signals,
        "signalIds": list(state.signal_ids),
        "children": sorted(state.children),
        "compensations": [f"{entry.node_id}/{entry.visit}" for entry in state.compensations],
        "open": [_open(activation) for activation in state.activations()],
        "timers": timers_of(state),
        "effects": [{"type": type(effect).__name__, **_effect(effect)} for effect in effects],
    }
    return cast("JsonObject", msgspec.json.decode(msgspec.json.encode(drawn)))


def _open(activation: Activation) -> JsonObject:
    return {
        "node": activation.node_id,
        "visit": activation.visit,
        "phase": str(activation.phase),
        "attempt": activation.attempt,
        "arguments": activation.arguments,
        "external": activation.external,
        "deadline": activation.deadline,
        "dueAt": activation.due_at,
    }


def _effect(effect: object) -> dict[str, Any]:
    # What a performer is given beside its work comes from the document, which stands in the heading.
    told = cast("dict[str, Any]", msgspec.to_builtins(effect))
    # Portraits were drawn before effects had this; only where there is something to tell, it is told.
    if told.get("answer_secrets", ...) is None:
        del told["answer_secrets"]
    return {name: value for name, value in told.items() if name != "config"}


@contextmanager
def limited(changed: dict[str, int]) -> Iterator[None]:
    """Other limits for a while."""
    with ExitStack() as stack:
        for name, value in changed.items():
            stack.enter_context(patch.object(limits, name, value))
        yield


def step_of(given: inputs.Input, rows: Sequence[bytes], *, status: str, due: tuple[str, ...], cut: bool) -> Step:
    """One line of a history."""
    told = {name: value for name, value in msgspec.to_builtins(given).items() if value is not None}
    raw = tuple(msgspec.Raw(row) for row in rows)
    return Step(type=type(given).__name__, given=told, rows=raw, status=status, due=due, cut=cut)


def golden_files() -> list[Path]:
    """Every golden history, in order."""
    return sorted(HISTORIES.glob("*.jsonl"))


def read(path: Path) -> Golden:
    """A golden history from its file."""
    lines = path.read_bytes().splitlines()
    steps = tuple(msgspec.json.decode(line, type=Step) for line in lines[1:-1])
    heading = msgspec.json.decode(lines[0], type=Heading)
    return Golden(heading=heading, steps=steps, portrait=msgspec.json.decode(lines[-1]))


def write(path: Path, golden: Golden) -> None:
    """Add a golden history; one that is there is never changed."""
    with path.open("xb") as file:
        for line in _lines(golden):
            file.write(line + b"\n")


def _lines(golden: Golden) -> Iterator[bytes]:
    yield msgspec.json.encode(golden.heading)
    for step in golden.steps:
        yield msgspec.json.encode(step)
    yield msgspec.json.encode(golden.portrait)
