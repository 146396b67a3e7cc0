"""The plan of a workflow: which plain moves it has, compiled once for each as it is first made.

A `Step` is what all moves from one activity to its successor (or from the start to the first activity) have in common:
the shape of their records, how many bytes these have beside their values, how far the counters go on, and the effect
that is due then. It is found by `probing` and never written by hand.

Above it: `taking`. Below it: `probing`, the compiled workflow.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.jq.templates import LiteralTemplate, Template, template_secrets
from penstock.definitions.model import ActivityDetail, EndDetail, Node, Workflow
from penstock.definitions.schemas.compiled import CompiledSchema
from penstock.engine.effects import PerformActivity
from penstock.engine.folding.reading import size_of
from penstock.engine.folding.trust import is_outside
from penstock.engine.moves.probing import BEGIN_VALUES, MADE, MOVE_VALUES, Probe, probe_begin, probe_move
from penstock.engine.pages import Field, Shape
from penstock.engine.state import RunState

__all__ = ["Plan", "Size", "StartTemplate", "Step"]


class Size(msgspec.Struct, frozen=True, gc=False):
    """How many bytes the payloads of a shape have: always, and for each value, run id and instant in them."""

    always: int
    run_ids: int
    values: tuple[int, ...]  # how often each of the move's values stands there
    instants: tuple[int, ...]  # milliseconds after the move


class Step(msgspec.Struct, frozen=True, gc=False):
    """What all moves of one kind have in common."""

    shape: Shape
    size: Size
    node: Node | None  # whose result leads on; None where a run begins
    target: Node
    made: Template | None  # what has to be worked out: the target's arguments, or the result of the run
    constant: JsonValue  # the same, where it is always the same
    works_out: bool  # whether either has to be worked out, or looked at
    effect: PerformActivity | None  # what is due then, but for what differs; None at the end of a run
    result_schema: CompiledSchema | None
    records: int
    commands: int
    steps: int
    completed: int  # nodes
    usual_keys: frozenset[str]  # of the first record
    outside: bool  # what was asked for is done by somebody outside, see `trust`

    @property
    def is_end(self) -> bool:
        """True for the last move of a run."""
        return self.effect is None


class StartTemplate(msgspec.Struct, frozen=True, gc=False):
    """What all starts under the same circumstances have in common."""

    state: RunState  # after the start, but for its id, input and time
    circumstances: JsonObject  # as the first record says them
    mode: bytes  # as JSON
    encoded: bytes  # the circumstances, as JSON


class Plan:
    """The plain moves of a workflow."""

    def __init__(self, workflow: Workflow) -> None:
        self.workflow = workflow
        self._steps: dict[str, Step | None] = {}
        self._begun: Step | None = None
        self._is_begin_known = False
        self.start_templates: dict[
            bytes, StartTemplate
        ] = {}  # by circumstances: a start without its id, input and time, as JSON

    def step(self, node_id: str) -> Step | None:
        """The move that a result of an activity makes; None if that move is not plain."""
        try:
            return self._steps[node_id]
        except KeyError:
            step = self._steps[node_id] = _compiled(self.workflow, node_id)
            return step

    @property
    def begin(self) -> Step | None:
        """The first move of a run; None if that move is not plain."""
        if not self._is_begin_known:
            self._begun, self._is_begin_known = _compiled_begin(self.workflow), True
        return self._begun


def _compiled(workflow: Workflow, node_id: str) -> Step | None:
    node = workflow.nodes.get(node_id)
    if node is None or not workflow.native or node.body:
        return None
    detail, successor = node.detail, node.successor
    if not isinstance(detail, ActivityDetail) or detail.compensate is not None:
        return None
    if successor is None or successor.when is not None or successor.target is None:
        return None
    target = workflow.nodes[successor.target]
    if not _is_plain(target):
        return None
    found = probe_move(_with_markers(workflow, node, target), node, target.id)
    return None if found is None else _step(found, workflow, node, target)


def _compiled_begin(workflow: Workflow) -> Step | None:
    target = workflow.nodes[workflow.bodies[""].entry]
    if not workflow.native or not isinstance(target.detail, ActivityDetail) or not _is_plain(target):
        return None
    # What a start says of timeouts is among its circumstances, and its input was looked at before.
    probed = replace(
        _with_markers(workflow, target, target), input_schema=None, input_schema_json=None, timeout_ms=None
    )
    found = probe_begin(probed)
    return None if found is None else _step(found, workflow, None, target)


def _is_plain(target: Node) -> bool:
    """Whether nothing but the way there leads to a node: an activity, or an end."""
    detail = target.detail
    if isinstance(detail, ActivityDetail):
        unusual = detail.agent_id is not None or detail.idempotency_key is not None
        secret = detail.arguments is not None and any(template_secrets(detail.arguments))
        return not unusual and not secret and (target.timeout_ms is None or target.timeout_ms > 0)
    if isinstance(detail, EndDetail):
        return detail.output is None or not any(template_secrets(detail.output))
    return False


def _made(target: Node) -> Template | None:
    """What is worked out when a node is reached, if it is not always the same."""
    match target.detail:
        case ActivityDetail(arguments=template) | EndDetail(output=template):
            return None if isinstance(template, LiteralTemplate) else template
        case _:
            return None


def _constant(target: Node) -> JsonValue:
    match target.detail:
        case ActivityDetail(arguments=LiteralTemplate(value=value)) | EndDetail(output=LiteralTemplate(value=value)):
            return value
        case _:
            return None


def _with_markers(workflow: Workflow, node: Node, target: Node) -> Workflow:
    """The workflow with a marker in place of what is worked out at a node, and without schemas that refuse markers."""
    detail = target.detail
    marked = LiteralTemplate(MADE)
    if isinstance(detail, ActivityDetail) and _made(target) is not None:
        detail = replace(detail, arguments=marked)
    elif isinstance(detail, EndDetail):
        detail = replace(detail, output_schema=None, output=marked if _made(target) is not None else detail.output)
    nodes = {
        **workflow.nodes,
        node.id: replace(node, output_schema=None),
        target.id: replace(target, detail=detail, output_schema=None),
    }
    return replace(workflow, nodes=nodes, output_schema=None)


def _step(found: Probe, workflow: Workflow, node: Node | None, target: Node) -> Step | None:
    before, after, effects = found.before, found.after, found.effects
    effect = effects[0] if effects else None
    if len(effects) > 1 or (effect is not None and not isinstance(effect, PerformActivity)):
        return None
    try:
        size = _size(found.shape, len(BEGIN_VALUES if node is None else MOVE_VALUES))
    except UnicodeEncodeError:
        return None  # a constant of the document that only an escape can hold
    return Step(
        shape=found.shape,
        size=size,
        node=node,
        target=target,
        made=_made(target),
        constant=_constant(target),
        works_out=_made(target) is not None or isinstance(target.detail, EndDetail),
        effect=effect,
        result_schema=None if node is None else node.output_schema,
        records=after.seq - before.seq,
        commands=after.commands - before.commands,
        steps=after.steps - before.steps,
        completed=after.nodes_since_checkpoint - before.nodes_since_checkpoint,
        usual_keys=frozenset(field.name for field in found.shape.records[0].fields),
        outside=effect is not None and is_outside(target.type),
    )


def _size(shape: Shape, values: int) -> Size:
    counts, instants, run_ids, always = [0] * values, [], 0, 0
    for record in shape.records:
        named = [field for field in record.fields if field.source != "members"]
        always += 2 + len(named) - 1
        for field in record.fields:
            always += _fixed_size(field)
            match field.source:
                case "given":
                    counts[field.value] += 1
                case "run":
                    run_ids += 1
                case "after":
                    instants.append(field.value)
                case "constant" | "names" | "members":
                    pass
    shape.content  # noqa: B018  # encoded now, where that may fail
    return Size(always, run_ids, tuple(counts), tuple(instants))


def _fixed_size(field: Field) -> int:
    """The bytes of a key with its colon, and of its value if that is always the same."""
    if field.source == "members":
        return 0
    return size_of(field.name) + 1 + (size_of(field.value) if field.source == "constant" else 0)
