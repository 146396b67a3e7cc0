"""Every page of the console, with addresses that show it: the table that the tests of every page go through.

A name in braces stands for what `everyday.names` made. A page that is not in the table fails a test.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from tests.live.console.visiting import HOSTILE

__all__ = ["FORMS", "PAGES", "REFUSED", "SIGN_IN", "TEXTS", "Sent"]

SIGN_IN = "/sign-in"
PAGES: dict[str, tuple[str, ...]] = {
    SIGN_IN: (SIGN_IN, "/sign-in?to=%2Fconsole%2Fruns&expired=1"),
    "": ("",),
    "/runs": ("/runs", "/runs?status=completed&text=x", "/runs?period=day&label=team%3Dclaims"),
    "/bulk": ("/bulk?action=cancel&run={waits}&run={failed}",),
    "/runs/{execution_id}": (
        "/runs/{waits}",
        "/runs/{failed}",
        "/runs/{held}",
        "/runs/{hostile}",
        "/runs/{broken}?after=1",
        "/runs/r_0",
    ),
    "/runs/{execution_id}/progress": ("/runs/{waits}/progress",),
    "/runs/{execution_id}/visit": ("/runs/{broken}/visit?node=stop&visit=1&from=5",),
    "/runs/{execution_id}/compare": ("/runs/{failed}/compare", "/runs/{failed}/compare?with={waits}"),
    "/approvals": ("/approvals", "/approvals?status=open", "/approvals?status=ended"),
    "/approvals/{draft_id}": ("/approvals/{held}", "/approvals/{held_hostile}", "/approvals/{held_merge}"),
    "/workflows": ("/workflows", "/workflows?prefix=none"),
    "/workflows/{workflow_id}": (
        "/workflows/settle_claim",
        "/workflows/handle_incident",
        "/workflows/order",
        "/workflows/plain",
    ),
    "/workflows/{workflow_id}/start": ("/workflows/settle_claim/start", "/workflows/order/start"),
    "/workflows/{workflow_id}/tests": ("/workflows/order/tests", "/workflows/plain/tests"),
    "/workflows/{workflow_id}/versions": ("/workflows/order/versions?{two_versions}", "/workflows/plain/versions"),
    "/workflows/{workflow_id}/access": (
        "/workflows/order/access",
        f"/workflows/order/access?arguments={quote(HOSTILE).replace('{', '{{').replace('}', '}}')}",
    ),
    "/agents": ("/agents",),
    "/agents/{agent_id}": ("/agents/support", "/agents/helper"),
    "/tools": ("/tools", "/tools?operations=yes&toolset=workflows"),
    "/tools/servers": ("/tools/servers",),
    "/tools/servers/{server}": ("/tools/servers/shop",),
    "/connect": ("/connect", "/connect?client=codex"),
    "/keys": ("/keys",),
    "/sessions": ("/sessions", "/sessions?everybody=1"),
    "/schedules": ("/schedules", "/schedules?workflow_id=none"),
    "/schedules/{schedule_id}": ("/schedules/weekly-claims",),
    "/new/schedule": ("/new/schedule?workflow_id=settle_claim", "/new/schedule"),
    "/new/webhook": ("/new/webhook",),
    "/webhooks": ("/webhooks",),
    "/webhooks/{endpoint_id}": ("/webhooks/{endpoint}",),
    "/system": ("/system",),
    "/policies": ("/policies",),
    "/policies/explain": (
        "/policies/explain",
        f"/policies/explain?action=erase_customer&who=somebody&id=%3Cscript%3E{'x' * 900}",
    ),
    "/policies/replay": ("/policies/replay",),
    "/policies/shadow": ("/policies/shadow",),
    "/policies/documents/{policy_id}": ("/policies/documents/house",),
    "/audit": ("/audit", "/audit?operation=nothing"),
    "/audit/{seq}": ("/audit/1",),
    "/audit/{seq}/proof": ("/audit/1/proof",),
    "/audit/verify": ("/audit/verify",),
    "/audit/export": ("/audit/export",),
    "/graphs": ("/graphs",),
    "/graphs/{graph_id}": ("/graphs/crm",),
    "/graphs/{graph_id}/commits": ("/graphs/crm/commits",),
    "/graphs/{graph_id}/commits/{commit_id}": ("/graphs/crm/commits/{commit}",),
    "/graphs/{graph_id}/diff": ("/graphs/crm/diff?source={review}",),
    "/graphs/{graph_id}/merge": ("/graphs/crm/merge?source={review}", "/graphs/crm/merge?source={conflict}"),
    "/graphs/{graph_id}/queries/{name}": (
        "/graphs/crm/queries/named_like",
        "/graphs/crm/queries/people_of_age?run=yes&reads=yes&field.age=9007199254740993",
    ),
}
"""By route, below the root of the console: addresses of pages."""

REFUSED: dict[str, int] = {"/runs/r_0": 404, PAGES["/workflows/{workflow_id}/access"][1]: 422}
"""Addresses above that are answered with a page that says why not."""

TEXTS: dict[str, str] = {
    "/runs/{execution_id}/values/{name}": "/runs/{failed}/values/error",
    "/runs/{execution_id}/records/{seq}": "/runs/{failed}/records/1",
    "/runs/{execution_id}/export": "/runs/{failed}/export",
    "/approvals/{draft_id}/values/{name}": "/approvals/{held}/values/arguments",
}
"""Addresses that answer with a text or a file, without markup."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A page that only a form leads to."""

    page: str
    """Where the form is."""
    button: str
    """What is pressed there."""
    written: dict[str, str]
    """What is written before, by selector."""


FORMS: dict[str, Sent] = {
    "start-mistakes": Sent("/workflows/order/start", "button[value=start]", {"[name='field.amount']": "0"}),
    "start-dry": Sent(
        "/workflows/settle_claim/start",
        "button[value=simulate]",
        {"[name='field.order']": "B-40", "[name='field.amount']": "900"},
    ),
    "tests-report": Sent("/workflows/order/tests", "main form button", {}),
    "key-new": Sent("/keys", "button[value=create]", {"#name": "the desk", "#scopes": "workflow:run"}),
    "audit-signed": Sent("/audit/verify", "button[value=sign]", {}),
    "audit-verified": Sent("/audit/verify", "button[value=verify]", {}),
    "policies-tried": Sent("/policies/replay", "main form button", {"#text": "permit (principal, action, resource);"}),
}
