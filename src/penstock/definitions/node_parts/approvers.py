"""Approvers as documents write them: who is named, who is asked next, and what is wrong with that.

Above it: the node that asks people, the governance of a document. Below it: `base.scopes`, `compiling`.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.base.json import JsonObject, JsonValue, object_or_empty
from penstock.base.scopes import SCOPE_HINT, is_scope
from penstock.definitions.node_parts.compiling import duration_of
from penstock.definitions.source.findings import Finding

__all__ = ["approver_findings", "approver_groups", "escalation_ms"]


def approver_groups(approvers: JsonObject) -> tuple[str, ...]:
    """Return the groups that a document names, whether it names one or several."""
    group, groups = approvers.get("group"), approvers.get("groups")
    listed = groups if isinstance(groups, list) else []
    return tuple(name for name in (group, *listed) if isinstance(name, str))


def escalation_ms(approvers: JsonValue) -> int | None:
    """Return after how many milliseconds others are asked; None if nobody else is."""
    return duration_of(object_or_empty(object_or_empty(approvers).get("escalate")).get("after"))


def approver_findings(approvers: JsonObject, path: str, *, timeout: JsonValue = None) -> Iterator[Finding]:
    """Yield a finding for each group that nobody can belong to, and for an escalation that could never happen.

    `timeout` is how long the question is open, if the document says so.
    """
    yield from _group_findings(approvers, path)
    escalate = approvers.get("escalate")
    if not isinstance(escalate, dict):
        return
    place = f"{path}/escalate"
    yield from _group_findings(object_or_empty(escalate.get("to")), f"{place}/to")
    if not approver_groups(approvers) and not approvers.get("users"):
        message = "the approval names nobody, so everybody may answer it, and an escalation has no effect"
        yield Finding(code="ESCALATION_INVALID", message=message, path=place, hint="write `group`, `groups` or `users`")
    after, until = escalation_ms(approvers), duration_of(timeout)
    if after == 0:
        message = "the escalation happens immediately, so the first approvers have no time"
        yield Finding(code="ESCALATION_INVALID", message=message, path=f"{place}/after", hint="write, for example, 1h")
    if after is not None and until is not None and after >= until:
        message = f"the question ends after {timeout}, before the escalation"
        yield Finding(code="ESCALATION_INVALID", message=message, path=f"{place}/after", hint="escalate earlier")


def _group_findings(named: JsonObject, path: str) -> Iterator[Finding]:
    for group in approver_groups(named):
        if not is_scope(f"approve:{group}"):
            message = f"the group {group[:100]!r} cannot have members: approve:{group[:100]} is not a scope"
            place = f"{path}/group" if named.get("group") == group else f"{path}/groups"
            yield Finding(code="SCOPE_INVALID", message=message, path=place, hint=SCOPE_HINT)
