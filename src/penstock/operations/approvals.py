"""Approvals are given by people: what a model writes into the arguments of a tool is none.

A question that names its approvers is an approval. Over MCP it is answered in a form that the client shows to a person,
never by a call of a tool: the text that a model has read might have told it to make that call. The engine refuses such
an answer when it is taken, so that no way of naming a question, and no moment, gets around it.

Above it: the operations that answer questions. Below it: what is known of a request.
"""

from __future__ import annotations

from penstock.base.errors import Denied
from penstock.operations.context import Context

__all__ = ["is_by_model", "refuse_used_approval"]


def is_by_model(context: Context) -> bool:
    """Whether a model makes the call, as far as anybody can tell."""
    request = context.request
    return request.surface == "mcp" and not request.from_person


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
