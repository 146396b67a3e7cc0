"""A run at a glance: its workflow as a drawing with the status of every node, and its visits along time.

Both are made from the whole history, and made again only when the run has moved. Neither has values in it, but
what people were asked and decided: values are in the records that the bars name.

Above it: the catalogue. Below it: `drawing`, the visits of a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from penstock.base import limits
from penstock.base.errors import NotFound
from penstock.base.lazy_import import lazy_import
from penstock.definitions.model import Workflow
from penstock.engine.records import Record
from penstock.engine.state import RunState
from penstock.engine.visits import Change, RunVisits, Visit, VisitStatus, change_of, fold_with_state, visits_of
from penstock.engine.walk.questions import open_questions
from penstock.operations.catalogue.capability import Capability, Example, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import instant, milliseconds
from penstock.operations.executions.inputs import ExecutionId, NamedExecution
from penstock.operations.executions.reads import Bar, Lane, Timeline, Undecided, execution_view, keep_view, known_view
from penstock.operations.gate.context import Context
from penstock.operations.permissions.deciding import ANSWER_SCOPE, APPROVE_SCOPE, why_not_decide
from penstock.operations.permissions.people import names_of
from penstock.operations.runs.decisions import decisions_in, with_names
from penstock.operations.runs.handles import visible_run
from penstock.operations.runs.held_calls import HELD_LABEL
from penstock.operations.runs.views import ExecutionView, view_of_run
from penstock.runtime.ports.runs import RunRow

if TYPE_CHECKING:
    from penstock.drawing import svg
else:
    svg = lazy_import("penstock.drawing.svg")

__all__ = ["OPERATIONS"]

_FAILURES = (Change.FAILED, Change.ATTEMPT_FAILED, Change.OUTCOME_UNKNOWN, Change.RUN_FAILED)
_WORST_FIRST = (
    VisitStatus.FAILED,
    VisitStatus.RUNNING,
    VisitStatus.RETRYING,
    VisitStatus.WAITING,
    VisitStatus.CANCELLED,
    VisitStatus.COMPLETED,
)


class RunDrawing(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow as SVG, for a page that brings the style sheet."""

    svg: str | None
    """None if there are too many nodes to draw."""
    nodes: int


class LookAtTimeline(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which run, and a time to find in its history."""

    execution_id: ExecutionId
    at: Annotated[
        Annotated[str, Meta(max_length=200)] | None,
        Meta(description="Find the record at this time: RFC 3339 with an offset."),
    ] = None


@operation(
    "execution.drawing",
    route=Route(method="GET", path="/executions/{execution_id}/drawing"),
    scopes=("execution:read", "workflow:read"),
    reads=True,
    subject="execution_id",
    errors=("EXECUTION_NOT_FOUND",),
    examples=(Example(arguments={"execution_id": "order-1042"}),),
)
async def execution_drawing(context: Context, given: NamedExecution) -> RunDrawing:
    """Draw a run.

    Returns the workflow as SVG: each node is a link to `#node-ID`, with its status as a class. It has no style sheet.
    Very large workflows are not drawn.
    """
    row = await visible_run(context, given.execution_id)
    services, key = context.services, ("drawing", row.run_id, row.definition_hash, row.seq)
    known: RunDrawing | None = services.execution_views.get(key)
    if known is not None:
        return known
    workflow = await services.host.workflow(row.definition_hash)
    if workflow is None:
        raise NotFound("EXECUTION_NOT_FOUND", f"run {given.execution_id} was deleted")
    if len(workflow.nodes) > limits.WORKFLOW_DRAWN_NODES_MAX:
        drawing = RunDrawing(svg=None, nodes=len(workflow.nodes))
    else:
        view = await execution_view(context, row)
        states = {node.node_id: node.status for node in view.nodes}
        svg = await services.view_threads.run(context.principal.id, _drawn, workflow, states)
        drawing = RunDrawing(svg=svg, nodes=len(workflow.nodes))
    services.execution_views.put(key, drawing)
    return drawing


def _drawn(workflow: Workflow, states: dict[str, str]) -> str:
    return svg.to_page_svg(workflow.document, states)


@operation(
    "execution.timeline",
    route=Route(method="GET", path="/executions/{execution_id}/timeline", query=("at",)),
    scopes=("execution:read",),
    reads=True,
    subject="execution_id",
    errors=("EXECUTION_NOT_FOUND",),
    examples=(Example(arguments={"execution_id": "order-1042"}),),
)
async def execution_timeline(context: Context, given: LookAtTimeline) -> Timeline:
    """Show the visits of a run over time.

    Returns a lane for each node with a bar for each visit: when it began and ended, how often it was tried, and the
    records in the history that say so. Where there are very many visits, one bar covers several in a row. `decisions`
    says who decided what, and when.
    """
    row = await visible_run(context, given.execution_id)
    at = milliseconds(given.at, "at")
    timeline = await _timeline(context, row)
    starter = row.started_by or ""
    timeline = msgspec.structs.replace(
        timeline,
        decisions=await with_names(context, timeline.decisions),
        starter_name=(await names_of(context, [starter])).get(starter, ""),
    )
    if not row.terminal:
        timeline = msgspec.structs.replace(timeline, undecided=await _list_undecided(context, row))
    if at is None:
        return timeline
    return msgspec.structs.replace(timeline, at_sequence=await _sequence_at(context, row, at))


async def _list_undecided(context: Context, row: RunRow) -> list[Undecided]:
    """Return the open questions of a run, and whether the caller may decide them."""
    state = await context.services.host.read(row.run_id)
    scope = APPROVE_SCOPE if HELD_LABEL in row.labels else ANSWER_SCOPE
    asked = () if state is None else open_questions(state)
    reasons = (
        {} if state is None else {item.interrupt_id: why_not_decide(context, state, item, scope) for item in asked}
    )
    return [Undecided(interrupt_id=name, decidable=why is None, why_not=why) for name, why in reasons.items()]


async def _timeline(context: Context, row: RunRow) -> Timeline:
    services, key = context.services, ("timeline", row.run_id, row.created_at, row.seq)
    known: Timeline | None = services.execution_views.get(key)
    if known is not None:
        return known
    stored = await services.store.load(row.run_id)
    workflow = await services.host.workflow(row.definition_hash)
    if stored is None or workflow is None:
        raise NotFound("EXECUTION_NOT_FOUND", "the run was deleted")
    # Whoever looks at the timeline looks at the execution, too: a long history is read and folded once for both.
    state = services.run_memory.known_state(stored.row)
    given = None if known_view(context, row) is not None else (stored.row, workflow, services.base_path, state)
    if len(stored.records) + len(workflow.nodes) <= limits.FOLDED_AT_ONCE:
        timeline, view = _folded(stored.records, given)
    else:
        timeline, view = await services.view_threads.run(context.principal.id, _folded, stored.records, given)
    services.execution_views.put(key, timeline)
    if view is not None:
        keep_view(context, row, stored, view)
    return timeline


def _folded(
    records: Sequence[Record], given: tuple[RunRow, Workflow, str, RunState | None] | None
) -> tuple[Timeline, ExecutionView | None]:
    """Return the timeline of a history, and the view of its run if it is not known."""
    if given is None:
        return _timeline_of(records, visits_of(records)), None
    row, workflow, base_path, state = given
    if state is None:
        state, visits = fold_with_state(records)
    else:  # whoever performs the run has its state, which is most of the work
        visits = visits_of(records)
    view = view_of_run(row, workflow, records, base_path, state=state, visits=visits)
    return _timeline_of(records, visits), view


async def _sequence_at(context: Context, row: RunRow, at: int) -> int:
    """Return the last record up to a time, found by halving: records are in the order of time."""
    low, high = 1, row.seq
    while low < high:
        middle = (low + high + 1) // 2
        found = await context.services.host.history(row.run_id, after_seq=middle - 1, limit=1)
        low, high = (middle, high) if found and found[0].at <= at else (low, middle - 1)
    return low


def _timeline_of(records: Sequence[Record], visits: RunVisits) -> Timeline:
    by_node: dict[str, list[Visit]] = {}
    for visit in visits.visits.values():
        by_node.setdefault(visit.node_id, []).append(visit)
    shown = dict(list(by_node.items())[: limits.TIMELINE_LANES_MAX])
    most = max(1, limits.TIMELINE_BARS_MAX // max(1, len(shown)))
    if sum(map(len, shown.values())) <= limits.TIMELINE_BARS_MAX:
        most = limits.TIMELINE_BARS_MAX
    failing = {name for name in {record.name for record in records} if change_of(name) in _FAILURES}
    failures = [record.seq for record in records if record.name in failing] if failing else []
    return Timeline(
        began_at=instant(visits.begun_at),
        updated_at=instant(visits.updated_at),
        sequence=visits.seq,
        lanes=[Lane(node_id=name, bars=list(_bars(found, most))) for name, found in shown.items()],
        lanes_left_out=len(by_node) - len(shown),
        first_failure=failures[0] if failures else None,
        last_failure=failures[-1] if failures else None,
        waits=_waits(visits),
        decisions=decisions_in(records),
    )


def _waits(visits: RunVisits) -> list[int]:
    found = (visit.begun_seq for visit in visits.open_leaves() if visit.wait is not None)
    return sorted(found)[: limits.TIMELINE_BARS_MAX]


def _bars(visits: list[Visit], most: int) -> Iterable[Bar]:
    """Return at most so many bars: one for each visit, or each for several in a row."""
    size = -(-len(visits) // most)
    for first in range(0, len(visits), size):
        yield _bar(visits[first : first + size])


def _bar(several: list[Visit]) -> Bar:
    first, last = several[0], several[-1]
    statuses = {visit.status for visit in several}
    is_open = any(visit.is_open for visit in several)
    return Bar(
        visit=first.ordinal,
        visits=len(several),
        status=str(next(status for status in _WORST_FIRST if status in statuses)),
        attempts=sum(visit.attempts for visit in several),
        begun_seq=first.begun_seq,
        ended_seq=None if is_open else last.ended_seq,
        begun_at=instant(first.begun_at),
        ended_at=None if is_open else instant(max(visit.ended_at or 0 for visit in several)),
        waits_for=None if last.wait is None else str(last.wait.kind),
    )


OPERATIONS: tuple[Capability, ...] = (execution_drawing, execution_timeline)
