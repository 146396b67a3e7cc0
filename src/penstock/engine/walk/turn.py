"""A turn: one decision in the making.

It owns a copy of the state, appends records to it one at a time through `evolve`, and builds the jq root for whatever
the walk evaluates. Since every record is folded the moment it is made, a history may end after any of them and the
next turn goes on from there.

Above it: `decide` opens a turn; `advance` and its siblings fill it. Below it: `evolve`, the compiled workflow.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.durations import format_instant
from penstock.definitions.jq.expressions import Evaluated, EvaluationFailed, Evaluator, Expression
from penstock.definitions.jq.templates import LiteralTemplate, QueryTemplate, Rendered, SealedPlaces, Template, render
from penstock.definitions.model import ActivityDetail, Node, Workflow
from penstock.engine.folding.evolve import apply, apply_body
from penstock.engine.records import Body, Record, made, made_with
from penstock.engine.state import COMPENSATION_PREFIX, Activation, RunState, Scope

__all__ = [
    "Turn",
    "activation_of",
    "attempt_timeout_ms",
    "detail_of",
    "happens_at_most_once",
    "node_of",
    "parallel_span",
    "truthy",
]

D = TypeVar("D")

_NOTHING_SEALED: SealedPlaces = {}


class Turn(msgspec.Struct, gc=False):
    """The decision being made: workflow, draft state, time, and the records so far."""

    workflow: Workflow
    state: RunState
    at: int
    evaluator: Evaluator
    records_max: int | None = None
    """How many records may be made by somebody who cannot wait; None for whoever can."""
    records: list[Record] = msgspec.field(default_factory=list)

    def record(self, body: Body) -> None:
        """Record a decision of the engine, or something that happened."""
        record = made(self.state.seq + 1, body, self.at, self.state.run_id)
        apply_body(self.state, record, body)
        self.records.append(record)

    def record_with(self, body: Body, beside: JsonObject | None, behind: str) -> None:
        """Record something that somebody adds keys to, behind one of its own."""
        if not beside:
            self.record(body)
            return
        record = made_with(made(self.state.seq + 1, body, self.at, self.state.run_id), beside, behind)
        apply(self.state, record)
        self.records.append(record)

    def evaluate(self, expression: Expression, scope: Scope) -> Evaluated | EvaluationFailed:
        """Evaluate jq where a scope stands."""
        return self.evaluator.evaluate(expression, self.root(scope))

    def render(self, template: Template, scope: Scope, extra: JsonObject | None = None) -> Rendered | EvaluationFailed:
        """Render a template where a scope stands; `extra` adds keys to a native root."""
        if isinstance(template, LiteralTemplate):
            return Rendered(template.value)
        if extra is None and isinstance(template, QueryTemplate) and scope.parent is None and self.state.native:
            read = template.expression.path
            if read and read[0] in scope.outputs:
                # Nothing but a part of an output: the rest of the root need not be built.
                return render(template, scope.outputs, self.evaluator, self._sealed(scope))
        root = self.root(scope)
        if extra and isinstance(root, dict) and self.state.native:
            root = {**root, **extra}
        return render(template, root, self.evaluator, self._sealed(scope))

    def _sealed(self, scope: Scope) -> SealedPlaces:
        """The places of the root that hold masks instead of secret answers."""
        inner = scope
        while not inner.sealed:
            if inner.parent is None:
                return _NOTHING_SEALED  # as in nearly every run
            inner = self.state.scopes[inner.parent]
        sealed: dict[str, dict[str, str]] = {}
        for link in self._chain(scope):
            for name in (link.item_name, *link.outputs) if sealed else ():
                sealed.pop(name, None)  # an inner name hides the outer one
            sealed.update(link.sealed)
        return sealed

    def root(self, scope: Scope) -> JsonValue:
        """The jq root: the bare state for published documents, the native root otherwise."""
        state = self.state
        if not state.native:
            return state.values
        root: JsonObject = {
            "input": state.input,
            "run": {
                "id": state.run_id,
                "started_at": format_instant(state.started_at),
                "attempt": state.attempt,
                "generation": state.generation,
                "continue_suggested": state.should_continue,
            },
            "state": state.values,
        }
        if state.error is not None:
            root["error"] = state.error
        for link in self._chain(scope):
            if link.item_name:
                root[link.item_name] = link.item
                root["index"] = link.index
            elif link.shares_outputs:
                root["loop"] = {"index": link.index}
            root.update(link.outputs)
        return root

    def _chain(self, scope: Scope) -> list[Scope]:
        chain = [scope]
        while scope.parent is not None:
            scope = self.state.scopes[scope.parent]
            chain.append(scope)
        chain.reverse()
        return chain


def truthy(value: JsonValue) -> bool:
    """jq's truth: everything but false and null."""
    return value is not None and value is not False


def detail_of(node: Node, kind: type[D]) -> D:
    """The node's detail, known to be of a kind; anything else is a bug of the engine."""
    if not isinstance(node.detail, kind):
        raise TypeError(f"{node.id} is a {node.type}, not what {kind.__name__} is for")
    return node.detail


def activation_of(scope: Scope) -> Activation:
    """The activation of a scope that is at a node; anything else is a bug of the engine."""
    if scope.activation is None:
        raise TypeError(f"scope {scope.serial} is at no node")
    return scope.activation


def node_of(workflow: Workflow, activation: Activation) -> Node:
    """The node of an activation; a compensation belongs to the node it undoes."""
    return workflow.nodes[activation.node_id.removeprefix(COMPENSATION_PREFIX)]


def attempt_timeout_ms(node: Node, activation: Activation) -> int | None:
    """How long one attempt of an activity may take; undoing a node has a time of its own."""
    detail = node.detail
    if activation.node_id.startswith(COMPENSATION_PREFIX) and isinstance(detail, ActivityDetail) and detail.compensate:
        return detail.compensate.timeout_ms
    return node.timeout_ms


def happens_at_most_once(workflow: Workflow, activation: Activation) -> bool:
    """True for an activity whose document says so; undoing is always done at least once."""
    detail = node_of(workflow, activation).detail
    undoing = activation.node_id.startswith(COMPENSATION_PREFIX)
    return isinstance(detail, ActivityDetail) and detail.at_most_once and not undoing


def parallel_span(workflow: Workflow, state: RunState, scope: Scope) -> JsonObject | None:
    """The published description of the branch a scope is in, or None outside of branches."""
    inner: Scope | None = scope
    while inner is not None and inner.parent is not None:
        parent = state.scopes[inner.parent]
        activation = parent.activation
        if activation is not None and activation.frame is not None and activation.frame.kind == "parallel":
            body = workflow.bodies[inner.body]
            successor = workflow.nodes[activation.node_id].successor
            return {
                "parallelNodeId": activation.node_id,
                "joinTargetId": body.exit_target or (successor.target if successor else None),
                "branchName": inner.name,
                "branchEntryNodeId": body.entry,
            }
        inner = parent
    return None
