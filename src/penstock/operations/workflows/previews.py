"""Operations that show what a stored workflow is and does, and start nothing: its picture, its test cases, a dry run.

Pictures are laid out, and documents are run dry, in threads: neither holds up the calls of others. A dry run calls
nothing; what its activities would give is said by the caller, or it stops there.

Above it: the catalogue. Below it: `drawing`, `runtime.simulation`, the store's definitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from penstock.base import limits
from penstock.base.errors import NotFound, Unavailable
from penstock.base.json import JsonObject
from penstock.base.lazy_import import lazy_import
from penstock.definitions.jq.expressions import Evaluator
from penstock.definitions.model import Workflow
from penstock.definitions.outline.document import outline_of
from penstock.operations.catalogue.capability import Capability, Example, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import WorkflowId
from penstock.operations.gate.context import Context
from penstock.operations.permissions.starting import found_definition, needs_of, unknown_workflow
from penstock.operations.workflows.views import VersionHash
from penstock.runtime.ports.runs import DefinitionRow

if TYPE_CHECKING:
    from penstock.drawing import svg
    from penstock.runtime.simulation import cases, dry_run
else:
    svg = lazy_import("penstock.drawing.svg")
    cases = lazy_import("penstock.runtime.simulation.cases")
    dry_run = lazy_import("penstock.runtime.simulation.dry_run")

__all__ = ["OPERATIONS"]


class DrawWorkflow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which workflow, perhaps which version of it, and which of its nodes are listed."""

    workflow_id: WorkflowId
    hash: VersionHash | None = None
    nodes_from: Annotated[int, Meta(ge=0, description="How many nodes the list leaves out at its beginning.")] = 0
    limit: Annotated[
        int, Meta(ge=1, le=limits.WORKFLOW_LISTED_NODES_MAX, description="How many nodes are listed at most.")
    ] = limits.WORKFLOW_LISTED_NODES_MAX


class DrawnRoute(msgspec.Struct, frozen=True, kw_only=True):
    """A way on from a node."""

    kind: str
    """next, then, else, case, default, error, timeout or edge."""
    target: str | None
    """The node that it leads to; None if it leaves the body."""
    target_position: int | None
    """The place of that node among all nodes, from 0; None if it leaves the body, or if there is no such node."""
    label: str


class DrawnNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node of a workflow, as the picture shows it."""

    id: str
    type: str
    inside: str | None
    """The node that it is inside of, such as a loop."""
    routes: list[DrawnRoute]


class Drawing(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow as a picture, and the same in words."""

    hash: str
    svg: str | None
    """The picture, without styles of its own; its nodes link to `#node-ID`. None if there are too many nodes."""
    nodes: list[DrawnNode]
    nodes_total: int
    """How many nodes there are; the list has some of them if there are very many."""


class TestWorkflow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which workflow, which version of it, and perhaps which of its cases."""

    workflow_id: WorkflowId
    hash: VersionHash | None = None
    case: Annotated[str, Meta(description="Only the case of this name.", max_length=200)] | None = None


class TestedCase(msgspec.Struct, frozen=True, kw_only=True):
    """How a test case came out."""

    name: str
    outcome: Literal["passed", "failed", "skipped"]
    differences: list[dict[str, Any]]
    """Each with its place, the expected value and the actual one."""
    unused: list[str]
    """Parts of its script that were not needed."""


class TestReport(msgspec.Struct, frozen=True, kw_only=True):
    """How the test cases of a document came out."""

    hash: str
    passed: bool
    """Whether none failed; true without cases, too."""
    cases: list[TestedCase]


class SimulateWorkflow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which workflow, its input, and what its activities and the people that it asks would say."""

    workflow_id: WorkflowId
    hash: VersionHash | None = None
    input: Annotated[Any, Meta(description="The input, as the workflow's schema says.")] = msgspec.field(
        default_factory=dict
    )
    mocks: Annotated[dict[str, Any], Meta(description="What activities would give, by the ids of their nodes.")] = {}
    answers: Annotated[dict[str, Any], Meta(description="Answers to questions, by the ids of their nodes.")] = {}


class SimulatedRun(msgspec.Struct, frozen=True, kw_only=True):
    """What a run would do, as far as it can be known without calling anything."""

    hash: str
    status: str
    """The status that it would have then: `refused` if it would not begin."""
    path: list[str]
    """The nodes that it would visit, in order."""
    result: Any
    error: dict[str, Any] | None
    waiting_for: list[dict[str, Any]]
    """What the run would wait for."""


@operation(
    "workflow.draw",
    route=Route(method="GET", path="/workflows/{workflow_id}/drawing", query=("hash", "nodes_from", "limit")),
    scopes=("workflow:read",),
    reads=True,
    subject="workflow_id",
    errors=("WORKFLOW_NOT_FOUND",),
    examples=(Example(arguments={"workflow_id": "refund_order"}),),
)
async def workflow_draw(context: Context, given: DrawWorkflow) -> Drawing:
    """Draw a workflow.

    Returns an SVG drawing without styles and scripts, for pages that have the styles, and its nodes and routes as a
    list, of which `nodes_from` and `limit` select a part.
    """
    row = await found_definition(context, given.workflow_id, given.hash)
    window = slice(given.nodes_from, given.nodes_from + given.limit)
    return await context.services.documents.threads.run(context.tenant, _drawn, row.hash, row.document, window)


def _drawn(definition_hash: str, document: JsonObject, window: slice) -> Drawing:
    outline = outline_of(document)
    listed = outline.nodes[window]
    positions = {node.id: position for position, node in enumerate(outline.nodes)}
    owners = {body_id: body.owner for body_id, body in outline.bodies.items()}
    is_drawn = len(outline.nodes) <= limits.WORKFLOW_DRAWN_NODES_MAX
    return Drawing(
        hash=definition_hash,
        svg=svg.to_page_svg(document) if is_drawn else None,
        nodes=[
            DrawnNode(
                id=node.id,
                type=node.type,
                inside=owners.get(node.body),
                routes=[
                    DrawnRoute(
                        kind=route.kind,
                        target=route.target,
                        target_position=None if route.target is None else positions.get(route.target),
                        label=route.label,
                    )
                    for route in node.routes
                ],
            )
            for node in listed
        ],
        nodes_total=len(outline.nodes),
    )


@operation(
    "workflow.test",
    route=Route(method="POST", path="/workflows/{workflow_id}/test"),
    scopes=("workflow:read",),
    reads=True,
    subject="workflow_id",
    errors=("WORKFLOW_NOT_FOUND", "TEST_CASE_NOT_FOUND", "NOT_CONFIGURED"),
    examples=(Example(arguments={"workflow_id": "refund_order"}),),
)
async def workflow_test(context: Context, given: TestWorkflow) -> TestReport:
    """Run the test cases of a workflow.

    Runs the cases in its document (`tests`) in memory: activities return what the case says, and nothing is called.
    Child workflows are used as they are stored now.
    """
    row, workflow = await _found(context, given.workflow_id, given.hash)
    chosen = [case for case in workflow.tests if given.case in (None, case.get("name"))]
    if given.case is not None and not chosen:
        message = f"{row.name} has no test case {given.case[:100]}"
        raise NotFound("TEST_CASE_NOT_FOUND", message, "leave `case` out to run all of them")
    others = await _children(context, row) if chosen else {}
    evaluator, threads = _evaluator(context), context.services.hook_threads
    tested = []
    for case in chosen[: limits.WORKFLOW_TEST_CASES_MAX]:
        report = await threads.run(
            context.tenant, cases.run_case, workflow, case, workflows=others, evaluator=evaluator
        )
        tested.append(
            TestedCase(
                name=report.name,
                outcome="skipped" if report.skipped else "passed" if report.passed else "failed",
                differences=[item.to_json() for item in report.differences],
                unused=list(report.unused),
            )
        )
    return TestReport(hash=row.hash, passed=all(case.outcome != "failed" for case in tested), cases=tested)


@operation(
    "workflow.simulate",
    route=Route(method="POST", path="/workflows/{workflow_id}/simulate"),
    scopes=("workflow:read",),
    reads=True,
    subject="workflow_id",
    errors=("WORKFLOW_NOT_FOUND", "NOT_CONFIGURED"),
    examples=(Example(arguments={"workflow_id": "refund_order", "input": {"order_id": "A-1042", "amount": 180}}),),
)
async def workflow_simulate(context: Context, given: SimulateWorkflow) -> SimulatedRun:
    """Simulate a workflow.

    Says which nodes a run with this input would visit and how it would end. Nothing is called and nothing is stored. It
    goes as far as it can without the results of activities, unless `mocks` has them.
    """
    row, workflow = await _found(context, given.workflow_id, given.hash)
    script = dry_run.Script(mocks=given.mocks, answers=given.answers, workflows=await _children(context, row))
    report = await context.services.hook_threads.run(
        context.tenant, dry_run.simulate, workflow, given.input, script, evaluator=_evaluator(context)
    )
    if isinstance(report, dry_run.SimulationRefused):
        error: JsonObject = {"code": report.code, "message": report.message}
        return SimulatedRun(hash=row.hash, status="refused", path=[], result=None, error=error, waiting_for=[])
    return SimulatedRun(
        hash=row.hash,
        status=report.status,
        path=list(report.path[: limits.WORKFLOW_LISTED_NODES_MAX]),
        result=report.result,
        error=report.error,
        waiting_for=list(report.waiting_for[: limits.WORKFLOW_LISTED_NODES_MAX]),
    )


async def _found(context: Context, workflow_id: str, version: str | None) -> tuple[DefinitionRow, Workflow]:
    row = await found_definition(context, workflow_id, version)
    workflow = await context.services.host.workflow(row.hash)
    if workflow is None:
        raise unknown_workflow(workflow_id, version)
    return row, workflow


async def _children(context: Context, row: DefinitionRow) -> dict[str, Workflow]:
    """Return the workflows that a run would start as children, and those that they would, as they are stored now."""
    services = context.services
    found: dict[str, Workflow] = {}
    open_rows = [row]
    while open_rows and len(found) < limits.WORKFLOW_LISTED_NODES_MAX:
        for child in needs_of(services, open_rows.pop()).children:
            stored = await services.store.definitions.find_named(child.name, tenant=context.tenant)
            workflow = None if stored is None else await services.host.workflow(stored.hash)
            if child.name not in found and stored is not None and workflow is not None:
                found[child.name] = workflow
                open_rows.append(stored)
    return found


def _evaluator(context: Context) -> Evaluator:
    """Return what evaluates the author's expressions where those of strangers are evaluated."""
    evaluator = context.services.hook_evaluator
    if evaluator is None:
        raise Unavailable(
            "NOT_CONFIGURED", "this process cannot simulate workflows", "send the call to a server (`penstock serve`)"
        )
    return evaluator


OPERATIONS: tuple[Capability, ...] = (workflow_draw, workflow_test, workflow_simulate)
