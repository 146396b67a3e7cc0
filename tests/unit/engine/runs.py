"""Driving runs of the pure engine by hand: documents in, inputs in order, records and states out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from msgspec.structs import replace

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.build.workflow import build_workflow
from penstock.definitions.model import Workflow
from penstock.definitions.source.findings import Severity
from penstock.definitions.validate import validate_document
from penstock.engine import inputs
from penstock.engine.decide import decide
from penstock.engine.effects import Effect
from penstock.engine.folding.evolve import fold
from penstock.engine.outcomes import Accepted, Decision, Refused
from penstock.engine.pending import pending
from penstock.engine.records import Record
from penstock.engine.state import RunState
from penstock.engine.status import run_status

__all__ = ["END", "T0", "Run", "begin", "compiled", "native", "published", "start", "step", "switch_loop"]

T0 = 1_760_000_000_000
END: JsonObject = {"id": "end", "type": "end"}


def step(node_id: str, *, with_: JsonValue = None, **fields: JsonValue) -> JsonObject:
    """A step node; `with_` are its arguments."""
    arguments: JsonObject = {} if with_ is None else {"with": with_}
    return {"id": node_id, "type": "step", "handler": "do.it", **arguments, **fields}


def compiled(document: JsonObject) -> Workflow:
    """A document that the checks find no error in, compiled."""
    errors = [item for item in validate_document(document) if item.severity is Severity.ERROR]
    assert errors == []
    return build_workflow(document)


def native(*nodes: JsonObject, **top: JsonValue) -> Workflow:
    """A native workflow of these nodes; an end node is added where there is none."""
    listed: list[JsonValue] = list(nodes)
    if not any(node["type"] == "end" for node in nodes):
        listed.append(END)
    return compiled({"penstock": "v1", "name": "sample", "nodes": listed, **top})


def published(
    *nodes: JsonObject,
    edges: Sequence[tuple[str, str]] | None = None,
    state: JsonObject | None = None,
    start_config: JsonObject | None = None,
    end_config: JsonObject | None = None,
    **top: JsonValue,
) -> Workflow:
    """A published workflow: start and end are added, and edges in listed order unless given."""
    first: JsonObject = {"id": "s", "type": "start", "config": start_config or {}}
    last: JsonObject = {"id": "e", "type": "end", "config": end_config or {}}
    listed: list[JsonValue] = [first, *nodes, last]
    names = ["__start__", "s", *(str(node["id"]) for node in nodes), "e"]
    pairs = edges if edges is not None else list(pairwise(names))
    return compiled(
        {
            "document": {"schema": "https://example.com/schema", "name": "sample", "version": "1.0.0"},
            "state_schema": state or {"type": "object"},
            "nodes": listed,
            "edges": [{"source": source, "target": target} for source, target in pairs],
            **top,
        }
    )


def switch_loop(rounds: int) -> Workflow:
    """A published loop: a tool is called, its result appended, and a switch leads back."""
    again: JsonObject = {"cases": [{"when": f"(.log | length) < {rounds}", "target": "a"}], "default": "e"}
    return published(
        {"id": "a", "type": "tool_call", "config": {"server": "shop", "tool": "count"}},
        {"id": "again", "type": "switch", "config": again},
        edges=[("__start__", "s"), ("s", "a"), ("a", "again")],
        state={"type": "object", "properties": {"log": {"type": "array", "reducer": "append"}}},
    )


@dataclass(kw_only=True)
class Run:
    """A run with its whole history; every accepted input is folded and compared."""

    workflow: Workflow
    state: RunState
    records: list[Record] = field(default_factory=list)
    now: int = T0

    def send(self, given: inputs.Input) -> Decision:
        """Give an input at the run's own time and keep what follows; a refusal must change nothing."""
        before = self.state.copy()
        decision = decide(self.workflow, self.state, replace(given, at=self.now))
        assert self.state == before
        if isinstance(decision, Accepted):
            self.state = decision.state
            self.records.extend(decision.records)
            assert fold(self.records) == self.state
        return decision

    def take(self, given: inputs.Input) -> Run:
        """Give an input that must be taken."""
        decision = self.send(given)
        assert isinstance(decision, Accepted), decision
        return self

    def refuse(self, given: inputs.Input) -> Refused:
        """Give an input that must be refused."""
        decision = self.send(given)
        assert isinstance(decision, Refused), decision
        return decision

    def done(self, node_id: str, result: JsonValue = None, visit: int | None = None) -> Run:
        """Report a result."""
        return self.take(inputs.CompleteActivity(at=0, node_id=node_id, result=result, visit=visit))

    def failed(self, node_id: str, code: str | None = "E_BAD", visit: int | None = None) -> Run:
        """Report a failure."""
        return self.take(inputs.FailActivity(at=0, node_id=node_id, error="it failed", code=code, visit=visit))

    def answer(self, answer: JsonValue, node_id: str | None = None) -> Run:
        """Answer a question."""
        return self.take(inputs.AnswerInterrupt(at=0, answer=answer, node_id=node_id))

    def signal(self, name: str, payload: JsonValue = None, signal_id: str | None = None) -> Run:
        """Send a signal."""
        return self.take(inputs.SendSignal(at=0, name=name, payload=payload, signal_id=signal_id))

    def fire(self, kind: str, node_id: str = "", visit: int = 1) -> Run:
        """Fire a timer that is due."""
        return self.take(inputs.FireTimer(at=0, kind=kind, node_id=node_id, visit=0 if kind == "run" else visit))

    def after(self, duration_ms: int) -> Run:
        """Let time pass."""
        self.now += duration_ms
        return self

    @property
    def due(self) -> list[Effect]:
        """What is due now."""
        return pending(self.workflow, self.state, self.now)

    @property
    def status(self) -> str:
        """Our word for what the run is doing."""
        return run_status(self.state)

    @property
    def code(self) -> str | None:
        """The code of the run's failure."""
        return self.state.failure.code if self.state.failure else None

    def told(self, first: int = 0) -> list[str]:
        """The history in short: commands in capitals would hide the names, so they carry a mark."""
        return [_short(record) for record in self.records[first:]]

    def of(self, name: str, node_id: str | None = None) -> list[JsonObject]:
        """The payloads of all records with a name."""
        found = [record.payload for record in self.records if record.name == name]
        return found if node_id is None else [payload for payload in found if payload.get("nodeId") == node_id]


def _short(record: Record) -> str:
    mark = "c " if record.kind == "command" else ""
    node = record.payload.get("nodeId")
    return f"{mark}{record.name} {node}" if node else f"{mark}{record.name}"


def start(workflow: Workflow, given: JsonValue = None, **options: JsonValue) -> Decision:
    """Start a run of a workflow."""
    started = inputs.StartRun(at=T0, run_id="run", input=given)
    return decide(workflow, RunState(), replace(started, **options))


def begin(workflow: Workflow, given: JsonValue = None, **options: JsonValue) -> Run:
    """A run that was started."""
    decision = start(workflow, given, **options)
    assert isinstance(decision, Accepted), decision
    return Run(workflow=workflow, state=decision.state, records=list(decision.records))
