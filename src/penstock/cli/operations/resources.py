"""The groups of commands that come from the catalogue, and the resource that each is about.

A resource whose name is a command already (`penstock schema` prints the schema for editors, `penstock graph` draws a
workflow, `penstock backup` copies a file) is named in the plural. The
wire's executions are runs here; their commands are in `runs.group`.

Above it: `main`, `groups`, `coverage`. Below it: nothing.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["RESOURCES", "ResourceGroup", "group_of"]


class ResourceGroup(NamedTuple):
    """A resource of the catalogue, and what its commands are for."""

    resource: str
    help: str


RESOURCES: Final[dict[str, ResourceGroup]] = {
    "workflow": ResourceGroup("workflow", "Workflows: create, look at, change, start."),
    "task": ResourceGroup("task", "Tasks: the nodes of a workflow, one by one."),
    "runs": ResourceGroup("execution", "Look at runs and change them, on a server or in a file."),
    "schedule": ResourceGroup("schedule", "Schedules: start workflows by the clock."),
    "graphs": ResourceGroup("graph", "Graphs: schemas, branches, commits, data, stored queries."),
    "memory": ResourceGroup("memory", "Memory of agents and people: keep, find, erase."),
    "webhook": ResourceGroup("webhook", "Webhooks: whom to tell about executions."),
    "notification": ResourceGroup("notification", "Notifications: who is told of one execution."),
    "delivery": ResourceGroup("delivery", "Deliveries: what webhooks were told, and what did not arrive."),
    "trigger": ResourceGroup("trigger", "Triggers: the webhooks that start or signal workflows."),
    "key": ResourceGroup("key", "API keys: create, rotate, revoke."),
    "quota": ResourceGroup("quota", "Quotas: what tenants and keys may use, and what they used."),
    "approval": ResourceGroup("approval", "Approvals: what waits for a decision, calls and questions alike."),
    "draft": ResourceGroup("draft", "Drafts: calls that wait for people."),
    "grant": ResourceGroup("grant", "Grants: what agents may change by themselves, and for how long."),
    "preflight": ResourceGroup("preflight", "Preflights: what a call would do, before it is made."),
    "policy": ResourceGroup("policy", "Policies: check, explain, test, compare, replay, store."),
    "console-session": ResourceGroup("console_session", "Sessions of the console: see who is signed in, and end one."),
    "token": ResourceGroup("token", "Access tokens of issuers: revoke a token or a subject."),
    "audit": ResourceGroup("audit", "The audit trail: who did what, and proof of it."),
    "schemas": ResourceGroup("schema", "Registered JSON Schemas."),
    "model": ResourceGroup("model", "Registered models."),
    "tool": ResourceGroup("tool", "Registered tools."),
    "agent": ResourceGroup("agent", "Agents: register, give work to, talk to."),
    "session": ResourceGroup("session", "Sessions: conversations with agents."),
    "upstream": ResourceGroup("upstream", "MCP servers whose tools are imported: look, accept, call."),
    "control": ResourceGroup("control", "The control functions of the published workflow format."),
    "backups": ResourceGroup("backup", "Backups that the server makes: make one, list them."),
    "system": ResourceGroup("system", "The server itself."),
}


def group_of(resource: str) -> str | None:
    """The name of the group of a resource."""
    return next((name for name, group in RESOURCES.items() if group.resource == resource), None)
