"""The pages of the console: one module for each kind. `HANDLERS` has the handler of every path. Read `runs` first."""

from collections.abc import Awaitable, Callable

from penstock.console.pages import approvals, home, runs, workflows
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
    "/workflows": workflows.listing,
    "/workflows/{workflow_id}": workflows.workflow,
}
