"""A turn: one decision while it is being made.

It owns a copy of the state, appends records to it one at a time through `evolve`, and builds the jq root for the
expressions of the walk. Every record is folded as soon as it is created, so a history may end after any of them and the
next turn continues from there.

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
    """The most records this turn may create, for a caller that cannot wait; None for a caller that can."""
    records: list[Record] = msgspec.field(default_factory=list)

    def record(self, body: Body) -> None:
        """Append the record of a decision or an event."""
        record = made(self.state.seq + 1, body, self.at, self.state.run_id)
        apply_body(self.state, record, body)
        self.records.append(record)

    def record_with(self, body: Body, beside: JsonObject | None, behind: str) -> None:
        """Append a record with additional keys, placed after the key `behind`."""
        if not beside:
            self.record(body)
            return
        record = made_with(made(self.state.seq + 1, body, self.at, self.state.run_id), beside, behind)
        apply(self.state, record)
        self.records.append(record)

    def evaluate(self, expression: Expression, scope: Scope) -> Evaluated | EvaluationFailed:
        """Evaluate jq in the context of a scope."""
        return self.evaluator.evaluate(expression, self.root(scope))

    def render(self, template: Template, scope: Scope, extra: JsonObject | None = None) -> Rendered | EvaluationFailed:
        """Render a template in the context of a scope; `extra` adds keys to a native root."""
        if isinstance(template, LiteralTemplate):
            return Rendered(template.value)
        if extra is None and isinstance(template, QueryTemplate) and scope.parent is None and self.state.native:
            read = template.expression.path
            if read and read[0] in scope.outputs:
                # The template reads only a part of one output, so the rest of the root is not built.
                return render(template, scope.outputs, self.evaluator, self._sealed(scope))
        root = self.root(scope)
        if extra and isinstance(root, dict) and self.state.native:
            root = {**root, **extra}
        return render(template, root, self.evaluator, self._sealed(scope))

    def _sealed(self, scope: Scope) -> SealedPlaces:
        """Return the paths in the root that hold masks instead of secret answers."""
        inner = scope
        while not inner.sealed:
            if inner.parent is None:
                return _NOTHING_SEALED  # the usual case
            inner = self.state.scopes[inner.parent]
        sealed: dict[str, dict[str, str]] = {}
        for link in self._chain(scope):
            for name in (link.item_name, *link.outputs) if sealed else ():
                sealed.pop(name, None)  # an inner name hides the outer one
            sealed.update(link.sealed)
        return sealed

    def root(self, scope: Scope) -> JsonValue:
        """Build the jq root: the bare state for published documents, the native root otherwise."""
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
    """Whether jq treats a value as true: everything but false and null."""
    return value is not None and value is not False


def detail_of(node: Node, kind: type[D]) -> D:
    """Return the node's detail as the expected type; any other type is a bug of the engine."""
    if not isinstance(node.detail, kind):
        raise TypeError(f"{node.id} is a {node.type}, not what {kind.__name__} is for")
    return node.detail


def activation_of(scope: Scope) -> Activation:
    """Return the activation of a scope that is at a node; anything else is a bug of the engine."""
    if scope.activation is None:
        raise TypeError(f"scope {scope.serial} is at no node")
    return scope.activation


def node_of(workflow: Workflow, activation: Activation) -> Node:
    """Return the node of an activation; a compensation belongs to the node it undoes."""
    return workflow.nodes[activation.node_id.removeprefix(COMPENSATION_PREFIX)]


def attempt_timeout_ms(node: Node, activation: Activation) -> int | None:
    """Return how long one attempt of an activity may take; a compensation has its own timeout."""
    detail = node.detail
    if activation.node_id.startswith(COMPENSATION_PREFIX) and isinstance(detail, ActivityDetail) and detail.compensate:
        return detail.compensate.timeout_ms
    return node.timeout_ms


def happens_at_most_once(workflow: Workflow, activation: Activation) -> bool:
    """Whether the document declares the activity at-most-once. Compensations are always at-least-once."""
    detail = node_of(workflow, activation).detail
    undoing = activation.node_id.startswith(COMPENSATION_PREFIX)
    return isinstance(detail, ActivityDetail) and detail.at_most_once and not undoing


def parallel_span(workflow: Workflow, state: RunState, scope: Scope) -> JsonObject | None:
    """Return the published description of the branch that contains a scope, or None outside branches."""
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
