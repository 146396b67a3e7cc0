"""The plan of a workflow: its plain moves, each compiled when it is first made.

A `Step` is what all moves from one activity to its successor (or from the start to the first activity) have in common:
the shape of their records, the size of these records without their values, how far the counters advance, and the effect
that is due afterwards. `probing` finds it; it is never written by hand.

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
from penstock.engine.walk.starting import has_secret_input

__all__ = ["Plan", "Size", "StartTemplate", "Step"]


class Size(msgspec.Struct, frozen=True, gc=False):
    """The size of a shape's payloads in bytes: the fixed part, and the counts of values, run ids and times."""

    always: int
    run_ids: int
    values: tuple[int, ...]  # how often each of the move's values occurs
    instants: tuple[int, ...]  # milliseconds after the time of the move


class Step(msgspec.Struct, frozen=True, gc=False):
    """What all moves of one kind have in common."""

    shape: Shape
    size: Size
    node: Node | None  # the node whose result leads on; None at the start of a run
    target: Node
    made: Template | None  # what must be computed: the target's arguments, or the result of the run
    constant: JsonValue  # the same, if it is constant
    works_out: bool  # whether the arguments or the result must be computed or checked
    effect: PerformActivity | None  # the effect due afterwards, without what differs; None at the end of a run
    result_schema: CompiledSchema | None
    records: int
    commands: int
    steps: int
    completed: int  # number of nodes
    usual_keys: frozenset[str]  # keys of the first record
    outside: bool  # the work is done outside, see `trust`

    @property
    def is_end(self) -> bool:
        """Whether this is the last move of a run."""
        return self.effect is None


class StartTemplate(msgspec.Struct, frozen=True, gc=False):
    """What all starts under the same circumstances have in common."""

    state: RunState  # after the start, without its id, input and time
    circumstances: JsonObject  # as in the first record
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
        """Return the move that a result of an activity makes, or None if that move is not plain."""
        try:
            return self._steps[node_id]
        except KeyError:
            step = self._steps[node_id] = _compiled(self.workflow, node_id)
            return step

    @property
    def begin(self) -> Step | None:
        """The first move of a run, or None if that move is not plain."""
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
    if has_secret_input(workflow):
        return None  # a host seals it first
    # The timeouts of a start are among its circumstances, and its input has been checked before.
    probed = replace(
        _with_markers(workflow, target, target), input_schema=None, input_schema_json=None, timeout_ms=None
    )
    found = probe_begin(probed)
    return None if found is None else _step(found, workflow, None, target)


def _is_plain(target: Node) -> bool:
    """Whether reaching a node involves nothing unusual: an activity or an end without keys or secrets of its own."""
    detail = target.detail
    if isinstance(detail, ActivityDetail):
        unusual = detail.agent_id is not None or detail.idempotency_key is not None
        secret = detail.arguments is not None and any(template_secrets(detail.arguments))
        return not unusual and not secret and (target.timeout_ms is None or target.timeout_ms > 0)
    if isinstance(detail, EndDetail):
        return detail.output is None or not any(template_secrets(detail.output))
    return False


def _template(target: Node) -> Template | None:
    """Return the template to render when a node is reached, or None if its value is constant."""
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
    """Return the workflow with a marker in place of the rendered value, and without schemas that refuse markers."""
    detail = target.detail
    marked = LiteralTemplate(MADE)
    if isinstance(detail, ActivityDetail) and _template(target) is not None:
        detail = replace(detail, arguments=marked)
    elif isinstance(detail, EndDetail):
        detail = replace(detail, output_schema=None, output=marked if _template(target) is not None else detail.output)
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
        return None  # a constant of the document that only an escape can encode
    return Step(
        shape=found.shape,
        size=size,
        node=node,
        target=target,
        made=_template(target),
        constant=_constant(target),
        works_out=_template(target) is not None or isinstance(target.detail, EndDetail),
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
    shape.content  # noqa: B018  # encode it now, where a failure is handled
    return Size(always, run_ids, tuple(counts), tuple(instants))


def _fixed_size(field: Field) -> int:
    """Return the size of a key with its colon, and of its value if that is constant."""
    if field.source == "members":
        return 0
    return size_of(field.name) + 1 + (size_of(field.value) if field.source == "constant" else 0)
