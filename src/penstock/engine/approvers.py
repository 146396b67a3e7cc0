"""Who may answer a question: the one function that decides it, for every surface.

A question that names approvers is an approval. Its approvers are members of groups, or are named one by one; several of
them may have to agree; and whoever wants something done may be excluded from agreeing to it. Models and agents never
approve. The engine asks this function at the moment it takes an answer, with the run as it is stored then, so that no
way of naming a question and no timing gets around it. Surfaces ask it to find out whom to ask. If a question is not
decided in time, others may be asked (`escalated`); until that is recorded in the run, they may not answer.

Whoever wants something done is the principal that started the run, whoever it acts for, and whoever made its key. A key
that a requester made cannot approve for them either, and does not count as another person in a quorum.

Above it: `walk.questions`, the operations that answer questions. Below it: `outcomes`.
"""

from __future__ import annotations

import msgspec

from penstock.base.json import JsonObject, JsonValue, object_or_empty
from penstock.engine.outcomes import Refused
from penstock.engine.state import RunState

__all__ = [
    "ANY_GROUP",
    "Approvers",
    "Requester",
    "Voter",
    "approvers_of",
    "escalated",
    "groups_counted",
    "is_same_person",
    "refuse_answer",
    "requester_of",
]

ANY_GROUP = "*"
"""The group of those who belong to all of them."""


class Approvers(msgspec.Struct, frozen=True, kw_only=True):
    """Who has to agree: members of any of the groups, or any of the users, so many of them."""

    groups: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    count: int = 1
    not_requester: bool = False


class Voter(msgspec.Struct, frozen=True, kw_only=True):
    """Who answers."""

    principal: str | None = None
    kind: str | None = None
    """What they are; None if that was not checked."""
    groups: tuple[str, ...] | None = None
    """The groups that they belong to; None if their identity was not checked: the program that owns the host answers.
    """
    owner: str | None = None
    """Who made their key."""
    acting_for: tuple[str, ...] = ()
    by_model: bool = False
    """Whether a model or an agent answers, and not a person in a form that it shows."""


class Requester(msgspec.Struct, frozen=True, kw_only=True):
    """Who wants something done: who started the run, whom they act for, and who made their key."""

    principal: str | None = None
    acting_for: tuple[str, ...] = ()
    owner: str | None = None


def approvers_of(value: JsonValue) -> Approvers | None:
    """Return the approvers that a question names; None if it is not an approval."""
    if not isinstance(value, dict):
        return None
    group, count = value.get("group"), value.get("count")
    groups = (*((group,) if isinstance(group, str) else ()), *_texts(value.get("groups")))
    return Approvers(
        groups=groups,
        users=_texts(value.get("users")),
        count=count if isinstance(count, int) and count > 1 else 1,
        not_requester=value.get("not_requester") is True,
    )


def escalated(value: JsonValue) -> JsonObject:
    """Return the approvers of a question after its escalation: those it names next, beside the first or instead.

    As many have to agree as before, and whoever was excluded stays excluded.
    """
    asked = object_or_empty(value)
    escalation = object_or_empty(asked.get("escalate"))
    first = Approvers() if escalation.get("instead") is True else approvers_of(asked) or Approvers()
    following = approvers_of(object_or_empty(escalation.get("to"))) or Approvers()
    found: JsonObject = {
        name: member for name, member in asked.items() if name not in ("group", "groups", "users", "escalate")
    }
    groups: list[JsonValue] = [*dict.fromkeys((*first.groups, *following.groups))]
    users: list[JsonValue] = [*dict.fromkeys((*first.users, *following.users))]
    return {**({"groups": groups} if groups else {}), **({"users": users} if users else {}), **found}


def _texts(value: JsonValue) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def requester_of(state: RunState) -> Requester:
    """Return who wants done what a run does. A schedule does not make its creator somebody else."""
    starter: JsonObject = object_or_empty(state.starter)
    nearest, owner = starter.get("onBehalfOf"), starter.get("owner")
    chain = _texts(starter.get("actingFor")) or ((nearest,) if isinstance(nearest, str) else ())
    return Requester(principal=state.started_by, acting_for=chain, owner=owner if isinstance(owner, str) else None)


def refuse_answer(
    question: str, approvers: Approvers | None, voter: Voter, requester: Requester, *, anyone: bool = False
) -> Refused | None:
    """Return why somebody may not answer a question; None if they may.

    `anyone` means that a model may answer, which no approval allows.
    """
    named: JsonObject = {"interrupt_id": question}
    by_agent = voter.by_model or (approvers is not None and voter.kind == "agent")
    if by_agent and (approvers is not None or not anyone):
        message = f"{question} is a question to a person, which neither a call of a tool nor an agent answers"
        hint = "a person answers in a form of the client, over REST, or with `penstock runs answer`"
        return Refused("PERSON_REQUIRED", message, hint, named)
    if approvers is None:
        return None
    if not _is_named(approvers, voter):
        return Refused("APPROVER_REQUIRED", f"{question} is answered by {_whom(approvers)}", _how(approvers), named)
    if approvers.not_requester and _is_requester(voter, requester):
        message = f"{question} is not answered by whoever started the run, or made the key that did"
        return Refused("APPROVER_REQUIRED", message, "somebody else answers, with a key of their own", named)
    return None


def _is_named(approvers: Approvers, voter: Voter) -> bool:
    if voter.groups is None or not (approvers.groups or approvers.users):
        return True
    return (
        bool(approvers.groups and {*approvers.groups, ANY_GROUP} & {*voter.groups})
        or voter.principal in approvers.users
    )


def groups_counted(approvers: Approvers | None, voter: Voter) -> tuple[str, ...]:
    """Return the groups of a question that a voter belongs to."""
    if approvers is None or voter.groups is None:
        return ()
    every = ANY_GROUP in voter.groups
    return tuple(group for group in approvers.groups if every or group in voter.groups)


def _is_requester(voter: Voter, requester: Requester) -> bool:
    wanting = {requester.principal, requester.owner, *requester.acting_for} - {None}
    return bool(wanting & {voter.principal, *voter.acting_for}) or (
        voter.owner is not None and voter.owner in {requester.principal, *requester.acting_for}
    )


def is_same_person(one: Voter, principal: JsonValue, owner: JsonValue) -> bool:
    """Whether a voter is the same person as an earlier one, as far as that can be known."""
    return one.principal is not None and (
        one.principal in (principal, owner) or (one.owner is not None and one.owner == principal)
    )


def _whom(approvers: Approvers) -> str:
    groups = [f"the group {group}" for group in approvers.groups]
    return " or ".join((*groups, *approvers.users))


def _how(approvers: Approvers) -> str:
    if not approvers.groups:
        return "one of those that it names answers"
    return f"somebody whose key has the scope approve:{approvers.groups[0]} answers"
