"""The pages of the console: one module for each kind. `HANDLERS` has the handler of every path. Read `runs` first."""

from collections.abc import Awaitable, Callable

from penstock.console.pages import approvals, audit, graphs, home, policies, sessions, system
from penstock.console.pages.runs import bulk, details, listing, run
from penstock.console.pages.schedules import editing
from penstock.console.pages.schedules import listing as schedules
from penstock.console.pages.tools import keys, seeing, servers
from penstock.console.pages.webhooks import endpoint, making
from penstock.console.pages.webhooks import listing as webhooks
from penstock.console.pages.workflows import access, agents, showing, starting
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
    "/runs/{execution_id}/progress": run.progress,
    "/runs/{execution_id}/export": details.export,
    "/approvals": approvals.queue,
    "/approvals/{draft_id}": approvals.draft,
    "/approvals/{draft_id}/values/{name}": approvals.value,
    "/workflows": showing.listing,
    "/workflows/{workflow_id}": showing.workflow,
    "/workflows/{workflow_id}/start": starting.start,
    "/workflows/{workflow_id}/tests": showing.tests,
    "/workflows/{workflow_id}/versions": showing.versions,
    "/workflows/{workflow_id}/access": access.access,
    "/agents": agents.listing,
    "/agents/{agent_id}": agents.agent,
    "/tools": seeing.seen,
    "/tools/servers": servers.listing,
    "/tools/servers/{server}": servers.server,
    "/connect": seeing.connect,
    "/keys": keys.keys,
    "/schedules": schedules.listing,
    "/schedules/{schedule_id}": editing.schedule,
    "/new/schedule": editing.new,
    "/webhooks": webhooks.listing,
    "/webhooks/{endpoint_id}": endpoint.endpoint,
    "/new/webhook": making.new,
    "/sessions": sessions.sessions,
    "/system": system.system,
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
