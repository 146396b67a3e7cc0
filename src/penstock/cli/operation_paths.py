"""Which command calls an operation: `graph.branches_create` is `penstock graph branch create`.

A resource has a group; an operation keeps the name of its action there, unless `_RENAMED` says otherwise. The wire's
executions are runs here.

Above it: `commands`, the generator of the documentation. Below it: nothing.
"""

from __future__ import annotations

from typing import Final

__all__ = ["WITHOUT_COMMAND", "command_of_operation"]

_GROUPS: Final = {
    "agent": "agent",
    "approval": "approval",
    "audit": "audit",
    "backup": "server",
    "console_session": "key session",
    "control": "workflow control",
    "delivery": "webhook delivery",
    "draft": "approval",
    "execution": "runs",
    "grant": "approval grant",
    "graph": "graph",
    "key": "key",
    "memory": "agent memory",
    "model": "agent model",
    "notification": "webhook notification",
    "policy": "policy",
    "preflight": "approval",
    "quota": "key quota",
    "schedule": "schedule",
    "schema": "workflow schema",
    "session": "agent session",
    "system": "server",
    "task": "workflow task",
    "token": "key token",
    "tool": "tool",
    "trigger": "webhook trigger",
    "upstream": "tool upstream",
    "webhook": "webhook",
    "workflow": "workflow",
}
_RENAMED: Final = {
    "agent.execute": "agent start",
    "backup.create": "server backup",
    "backup.list": "server list-backups",
    "draft.list": "approval drafts",
    "execution.lease_activity": "runs lease",
    "execution.status": "runs show",
    "execution.submit_activity": "runs submit",
    "graph.changes_poll": "graph changes",
    "graph.query": "graph query adhoc",
    "graph.query_run": "graph query run",
    "preflight.run": "approval preflight",
    "tool.execute": "tool call",
    "workflow.execute": "workflow start",
    "workflow.executions": "workflow runs",
}
# `graph.branches_create` is `graph branch create`.
_NESTED: Final = {
    "graph.branches_": "graph branch",
    "graph.commits_": "graph commit",
    "graph.queries_": "graph query",
    "graph.schema_": "graph schema",
}
# For pages and programs; `penstock runs show`, `history` and `watch` say the same at a terminal.
WITHOUT_COMMAND: Final = frozenset(
    {"execution.changes", "execution.drawing", "execution.progress", "execution.timeline"}
)


def command_of_operation(name: str) -> str | None:
    """The words of an operation's command after `penstock`; None if it has no command."""
    resource, _, action = name.partition(".")
    if name in WITHOUT_COMMAND or resource not in _GROUPS:
        return None
    if name in _RENAMED:
        return _RENAMED[name]
    for prefix, group in _NESTED.items():
        if name.startswith(prefix):
            return f"{group} {name.removeprefix(prefix).replace('_', '-')}"
    return f"{_GROUPS[resource]} {action.replace('_', '-')}"
