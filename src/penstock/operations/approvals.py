"""Questions are answered by people, and approvals by those who may give them.

Over MCP a question is answered in a form that the client shows to a person, never by a call of a tool, unless its
document says `answered_by: anyone`: the text that a model has read might have told it to make that call. An approval
names a group, whose members have the scope `approve:GROUP`, or keeps out whoever started the run. The engine refuses
other answers when they are taken, so that no way of naming a question, and no moment, gets around it.

Above it: the operations that answer questions. Below it: what is known of a request.
"""

from __future__ import annotations

from penstock.base.errors import Denied
from penstock.engine.inputs import Answerer
from penstock.governance.keys import scope_allows
from penstock.operations.context import Context, Principal

__all__ = ["answerer_of", "is_by_model", "may_ask_caller", "refuse_used_approval"]

_APPROVE = "approve:"


def is_by_model(context: Context) -> bool:
    """Whether a model makes the call, as far as anybody can tell."""
    request = context.request
    return request.surface == "mcp" and not request.from_person


def may_ask_caller(principal: Principal, approvers: object) -> bool:
    """Whether a question may be brought to whoever calls a workflow, given the approvers that it names, if any.

    They started the run, as far as can be told here: what is not theirs to approve is answered elsewhere.
    """
    if not isinstance(approvers, dict):
        return True
    group = approvers.get("group")
    is_member = not isinstance(group, str) or scope_allows(principal.scopes, f"{_APPROVE}{group}")
    return is_member and approvers.get("not_requester") is not True


def answerer_of(context: Context) -> Answerer:
    """What the engine has to know of a caller who answers a question."""
    scopes = context.principal.scopes
    groups = tuple(sorted(scope.removeprefix(_APPROVE) for scope in scopes if scope.startswith(_APPROVE)))
    every = scope_allows(scopes, f"{_APPROVE}*")
    return Answerer(by_model=is_by_model(context), groups=("*",) if every else groups)


async def refuse_used_approval(context: Context, run_id: str, at_sequence: int) -> None:
    """Refuse a model that would begin after an approval: what a person approved once is not approved again."""
    if not is_by_model(context):
        return
    approvals: set[object] = set()
    for record in await context.run(run_id).history():
        node = record.payload.get("nodeId")
        if record.seq > at_sequence:
            return
        if record.payload.get("approvers") is not None:
            approvals.add(node)
        elif record.name == "ResumeInterrupt" and node in approvals:
            told = f"{node} was approved before {at_sequence}, and only a person can approve it again"
            hint = "fork at an earlier record, or over REST, or with `penstock runs fork`"
            raise Denied("PERSON_REQUIRED", told, hint, {"node_id": str(node), "sequence": record.seq})
