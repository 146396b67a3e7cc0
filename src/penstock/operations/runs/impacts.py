"""What starting a workflow would do, for people who look before it is started: a dry run, and what it may touch.

Nothing is called in a dry run, so it goes as far as it can without the results of activities.

Above it: exposed workflows. Below it: `runtime.simulation`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.base.json import JsonObject, JsonValue
from penstock.base.lazy_import import lazy_import
from penstock.definitions.model import ActivityDetail
from penstock.operations.gate.context import Context

if TYPE_CHECKING:
    from penstock.runtime.simulation import dry_run
else:
    dry_run = lazy_import("penstock.runtime.simulation.dry_run")

__all__ = ["start_impact"]

# Nobody reads a longer plan in a preview.
_NODES_SHOWN_MAX = 100


async def start_impact(definition_hash: str, context: Context, given: JsonValue) -> JsonObject:
    """Return what starting a version of a workflow with this input would do."""
    services = context.services
    workflow = await services.host.workflow(definition_hash)
    if workflow is None:
        return {}
    touches: list[JsonValue] = [
        {"node": node.id, "type": str(node.type), **_where(node.detail)}
        for node in workflow.nodes.values()
        if isinstance(node.detail, ActivityDetail)
    ]
    impact: JsonObject = {"workflow": workflow.name, "hash": workflow.hash, "touches": touches[:_NODES_SHOWN_MAX]}
    evaluator = services.hook_evaluator
    if evaluator is None:
        return impact
    # A dry run evaluates the author's expressions, so it runs where those of strangers do.
    report = await services.hook_threads.run(
        context.tenant, dry_run.simulate, workflow, given, dry_run.Script(), evaluator=evaluator
    )
    if isinstance(report, dry_run.SimulationRefused):
        impact["plan"] = {"refused": report.code, "message": report.message}
    else:
        impact["plan"] = {
            "path": list(report.path[:_NODES_SHOWN_MAX]),
            "until": report.status,
            "waits_for": list(report.waiting_for[:_NODES_SHOWN_MAX]),
        }
    return impact


def _where(detail: ActivityDetail) -> JsonObject:
    config = detail.config
    return {name: config[name] for name in ("server", "tool", "handler", "url", "provider", "agent") if name in config}
