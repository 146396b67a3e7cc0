"""Whether a caller may decide an open question now, and if not, why not: the same on every surface.

Above it: the lists and pages of what waits. Below it: `answering`, the engine's rule for approvers.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from penstock.base.scopes import scope_allows
from penstock.engine.approvers import approvers_of, identity_of_vote, is_same_person, refuse_answer, requester_of
from penstock.engine.state import RunState
from penstock.engine.walk.questions import OpenQuestion
from penstock.operations.gate.context import Context
from penstock.operations.permissions.answering import identity_of, voter_of

__all__ = ["ANSWER_SCOPE", "APPROVE_SCOPE", "WhyNot", "why_not_decide"]

ANSWER_SCOPE, APPROVE_SCOPE = "execution:write", "draft:approve"

WhyNot: TypeAlias = Literal["scope", "person", "others", "requester", "voted"]
"""Why somebody cannot decide.

- scope: their key or token lacks the scope for it.
- person: they are a program, and people decide.
- others: the question names others.
- requester: they asked for it themselves.
- voted: they have approved it already; others have to.
"""


def why_not_decide(context: Context, state: RunState, asked: OpenQuestion, scope: str) -> WhyNot | None:
    """Return why a caller cannot decide a question of a run; None if they can."""
    if not scope_allows(context.principal.scopes, scope):
        return "scope"
    approvers, voter, requester = approvers_of(asked.approvers), voter_of(context), requester_of(state)
    refused = refuse_answer(asked.interrupt_id, approvers, voter, requester, anyone=asked.anyone)
    if refused is not None and refused.code == "PERSON_REQUIRED":
        return "person"
    if refused is not None and approvers is not None:
        everybody = msgspec.structs.replace(approvers, not_requester=False)
        excluded = refuse_answer(asked.interrupt_id, everybody, voter, requester) is None
        return "requester" if excluded else "others"
    own = identity_of(context.principal)
    return "voted" if any(is_same_person(own, identity_of_vote(vote)) for vote in asked.votes) else None
