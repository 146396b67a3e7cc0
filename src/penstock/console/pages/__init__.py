"""The pages of the console: one module for each kind. `HANDLERS` has the handler of every path. Read `runs` first."""

from collections.abc import Awaitable, Callable

from penstock.console.pages import approvals, audit, graphs, home, policies, runs, workflows
from penstock.console.visits import Shown, Visit

__all__ = ["HANDLERS"]

HANDLERS: dict[str, Callable[[Visit], Awaitable[Shown]]] = {
    "": home.home,
    "/runs": runs.listing,
    "/runs/{execution_id}": runs.run,
    "/runs/{execution_id}/values/{name}": runs.value,
    "/runs/{execution_id}/records/{seq}": runs.record,
    "/approvals": approvals.queue,
    "/approvals/{draft_id}": approvals.draft,
    "/approvals/{draft_id}/values/{name}": approvals.value,
    "/workflows": workflows.listing,
    "/workflows/{workflow_id}": workflows.workflow,
    "/policies": policies.listing,
    "/policies/explain": policies.explain,
    "/policies/replay": policies.replay,
    "/policies/shadow": audit.shadow,
    "/policies/documents/{policy_id}": policies.document,
    "/audit": audit.listing,
    "/audit/verify": audit.verify,
    "/audit/export": audit.export,
    "/audit/{seq}": audit.entry,
    "/audit/{seq}/proof": audit.proof,
    **graphs.HANDLERS,
}
