"""Who answers, as the engine has to know it: the caller of an operation as a voter.

Over MCP a question is answered in a form that the client shows to a person, never by a tool call, unless its document
says `answered_by: anyone`: something that a model has read might have talked it into that call. Members of a group have
it in their key or token, or the scope `approve:GROUP`. The engine decides with this (`engine.approvers`).

Above it: the operations that answer questions, surfaces that look for whom to ask. Below it: the request.
"""

from __future__ import annotations

import msgspec

from penstock.base import limits
from penstock.base.json import JsonValue
from penstock.base.scopes import scope_allows
from penstock.engine.approvers import ANY_GROUP, Identity, Requester, Voter, approvers_of, refuse_answer, requester_of
from penstock.engine.inputs import Answerer
from penstock.engine.state import RunState
from penstock.operations.gate.context import Context, Principal

__all__ = ["answerer_of", "belongs_to", "groups_of", "identity_of", "may_approve", "may_ask_caller", "voter_of"]

_APPROVE = "approve:"


def groups_of(principal: Principal) -> tuple[str, ...]:
    """Return the approver groups that a principal belongs to; `*` alone for all of them."""
    scopes = principal.scopes
    if scope_allows(scopes, f"{_APPROVE}*"):
        return (ANY_GROUP,)
    granted = {scope.removeprefix(_APPROVE) for scope in scopes if scope.startswith(_APPROVE)}
    return tuple(sorted(granted | principal.groups))


def belongs_to(principal: Principal, group: str) -> bool:
    """Whether a principal is a member of an approver group."""
    return bool({group, ANY_GROUP} & {*groups_of(principal)})


def identity_of(principal: Principal) -> Identity:
    """Return who a principal is, to compare it with others."""
    return Identity(
        principal=principal.id,
        subject=principal.subject,
        acting_for=principal.acting_for,
        owner=principal.owner,
        lineage=principal.lineage,
    )


def answerer_of(context: Context) -> Answerer:
    """Return what the engine has to know about a caller that answers a question.

    A person may answer in a form that an agent's program shows. That answers a question, but approves nothing.
    """
    principal, request = context.principal, context.request
    return Answerer(
        by_model=request.by_agent and not request.from_person,
        groups=groups_of(principal),
        kind=principal.kind,
        owner=principal.owner,
        acting_for=principal.acting_for,
        subject=principal.subject,
        lineage=principal.lineage,
        name=principal.name[: limits.AUDIT_NAME_CHARACTERS_MAX] or None,
    )


def may_approve(context: Context, state: RunState, approvers: JsonValue) -> bool:
    """Whether a caller may answer a question of a run that names these approvers."""
    return refuse_answer("", approvers_of(approvers), voter_of(context), requester_of(state)) is None


def voter_of(context: Context) -> Voter:
    """Return a caller as one who answers a question."""
    who, same = answerer_of(context), msgspec.structs.asdict(identity_of(context.principal))
    return Voter(**same, kind=who.kind, groups=who.groups, by_model=who.by_model)


def may_ask_caller(principal: Principal, approvers: object) -> bool:
    """Whether the caller of a workflow may be asked a question that names these approvers, if any.

    The caller is assumed to have started the run, and a person to sit in front of it. Questions that it may not approve
    are answered elsewhere.
    """
    if not isinstance(approvers, dict):
        return True
    who = msgspec.structs.asdict(identity_of(principal))
    voter = Voter(**who, kind=principal.kind, groups=groups_of(principal))
    requester = Requester(**who)
    return refuse_answer("", approvers_of(approvers), voter, requester) is None
