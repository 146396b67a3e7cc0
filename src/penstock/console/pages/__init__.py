"""The pages of the console: one module for each kind. `HANDLERS` has the handler of every path. Read `runs` first."""

from collections.abc import Awaitable, Callable

from penstock.console.pages import approvals, home, workflows
from penstock.console.pages.runs import bulk, details, listing, run
from penstock.console.visits import Shown, Visit

__all__ = ["HANDLERS"]

HANDLERS: dict[str, Callable[[Visit], Awaitable[Shown]]] = {
    "": home.home,
    "/runs": listing.listing,
    "/bulk": bulk.bulk,
    "/runs/{execution_id}": run.run,
    "/runs/{execution_id}/values/{name}": details.value,
    "/runs/{execution_id}/records/{seq}": details.record,
    "/runs/{execution_id}/visit": details.visit_of_node,
    "/runs/{execution_id}/compare": details.comparison,
    "/runs/{execution_id}/export": details.export,
    "/approvals": approvals.queue,
    "/approvals/{draft_id}": approvals.draft,
    "/workflows": workflows.listing,
    "/workflows/{workflow_id}": workflows.workflow,
}
