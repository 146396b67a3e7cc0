"""Who may answer a question: the one function that decides it, for every surface.

A question that names approvers is an approval. Its approvers are members of groups, or are named individually. Several
of them may have to approve, and the requester may be excluded. Only people approve, and services only where the
question says so (`services`); models and agents never do. The engine calls this function when it takes an answer, with
the run as stored at that moment. So neither the name of a question nor timing gets around it. Surfaces use it to find
the approvers. If a question is not decided in time, others may be asked (`escalated`); until that is recorded in the
run, they may not answer.

People are compared by subject, not by key (`Identity`). Two credentials are the same person if they have the same
subject, if one acts for the other, or if one made the other, or made a key that did. Two keys that a third person made
for two subjects are two people: whether they really are, a key cannot prove.

Above it: `walk.questions`, the operations that answer questions. Below it: `outcomes`.
"""

from __future__ import annotations

import msgspec

from penstock.base.json import JsonObject, JsonValue, object_or_empty
from penstock.engine.approved import authors_of
from penstock.engine.outcomes import Refused
from penstock.engine.state import RunState

__all__ = [
    "ANY_GROUP",
    "PEOPLE",
    "Approvers",
    "Identity",
    "Requester",
    "Voter",
    "approvers_of",
    "escalated",
    "groups_counted",
    "identity_of_vote",
    "is_same_person",
    "refuse_answer",
    "requester_of",
]

ANY_GROUP = "*"
"""The group whose members belong to all groups."""
PEOPLE = frozenset({"person", "local"})
"""The kinds of principals that are people: with a key or token of theirs, or a user of the machine."""
_SERVICE = "service"


class Approvers(msgspec.Struct, frozen=True, kw_only=True):
    """Who must approve: a number of members of any of the groups, or of the users."""

    groups: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    count: int = 1
    not_requester: bool = False
    services: bool = False
    """Whether services may answer, too."""


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Who somebody is, as far as their credential says."""

    principal: str | None = None
    subject: str | None = None
    """The person or machine behind the principal; None if it stands for itself."""
    acting_for: tuple[str, ...] = ()
    owner: str | None = None
    """Who made their key."""
    lineage: tuple[str, ...] = ()
    """The subjects that made their key, or a key before it, or made theirs."""

    @property
    def names(self) -> set[str]:
        """Who they are, by every name."""
        return {name for name in (self.principal, self.subject, *self.acting_for) if name is not None}

    @property
    def makers(self) -> set[str]:
        """Who made their credential."""
        return {name for name in (self.owner, *self.lineage) if name is not None}


class Voter(Identity, frozen=True, kw_only=True):
    """Who answers."""

    kind: str | None = None
    """What they are; None if that was not checked."""
    groups: tuple[str, ...] | None = None
    """The groups that they belong to; None if their identity was not checked: the program that owns the host answers.
    """
    by_model: bool = False
    """Whether a model or an agent answers, and not a person in a form that it shows."""


class Requester(Identity, frozen=True, kw_only=True):
    """Who wants something done: who started the run, whom they act for, and who made their key."""


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
        services=value.get("services") is True,
    )


def escalated(value: JsonValue) -> JsonObject:
    """Return the approvers of a question after its escalation, which are added to the first ones or replace them.

    The number of approvals stays the same, and excluded people stay excluded.
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
    """Return who wants done what a run does, and the agents that wrote it, with who is behind them.

    A schedule does not make its creator somebody else.
    """
    starter: JsonObject = object_or_empty(state.starter)
    nearest = starter.get("onBehalfOf")
    chain = _texts(starter.get("actingFor")) or ((nearest,) if isinstance(nearest, str) else ())
    return Requester(
        principal=state.started_by,
        subject=_text(starter.get("subject")),
        acting_for=chain,
        owner=_text(starter.get("owner")),
        lineage=(*_texts(starter.get("lineage")), *authors_of(state.starter)),
    )


def identity_of_vote(vote: JsonObject) -> Identity:
    """Return who gave a recorded vote."""
    return Identity(
        principal=_text(vote.get("by")),
        subject=_text(vote.get("subject")),
        acting_for=_texts(vote.get("actingFor")),
        owner=_text(vote.get("owner")),
        lineage=_texts(vote.get("lineage")),
    )


def _text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None


def refuse_answer(
    question: str, approvers: Approvers | None, voter: Voter, requester: Requester, *, anyone: bool = False
) -> Refused | None:
    """Return why somebody may not answer a question; None if they may.

    `anyone` means that a model may answer, which no approval allows.
    """
    named: JsonObject = {"interrupt_id": question}
    by_agent = voter.by_model or (approvers is not None and voter.kind == "agent")
    if by_agent and (approvers is not None or not anyone):
        message = f"{question} is a question to a person; tool calls and agents cannot answer it"
        hint = "a person can answer in a form of the client, over REST, or with `penstock runs answer`"
        return Refused("PERSON_REQUIRED", message, hint, named)
    if approvers is None:
        return None
    if voter.kind is not None and voter.kind not in PEOPLE and not (approvers.services and voter.kind == _SERVICE):
        message = f"{question} is an approval by a person, but you are a principal of kind {voter.kind}"
        hint = "sign in or use a key of kind person; `services: true` in the approvers allows services"
        return Refused("PERSON_REQUIRED", message, hint, named)
    if not _is_named(approvers, voter):
        return Refused("APPROVER_REQUIRED", f"only {_whom(approvers)} may answer {question}", _how(approvers), named)
    if approvers.not_requester and is_same_person(voter, requester):
        message = f"{question} must be answered by somebody other than the person who started the run or made its key"
        hint = "keys that you made, or that replace yours, count as you; another person must answer with their own key"
        return Refused("APPROVER_REQUIRED", message, hint, named)
    return None


def _is_named(approvers: Approvers, voter: Voter) -> bool:
    if voter.groups is None or not (approvers.groups or approvers.users):
        return True
    return bool(approvers.groups and {*approvers.groups, ANY_GROUP} & {*voter.groups}) or bool(
        {voter.principal, voter.subject} & {*approvers.users}
    )


def groups_counted(approvers: Approvers | None, voter: Voter) -> tuple[str, ...]:
    """Return the groups of a question that a voter belongs to."""
    if approvers is None or voter.groups is None:
        return ()
    every = ANY_GROUP in voter.groups
    return tuple(group for group in approvers.groups if every or group in voter.groups)


def is_same_person(one: Identity, other: Identity) -> bool:
    """Whether two credentials may be in the hands of one person, as far as that can be known."""
    return bool(one.names & (other.names | other.makers) or one.makers & other.names)


def _whom(approvers: Approvers) -> str:
    groups = [f"the group {group}" for group in approvers.groups]
    return " or ".join((*groups, *approvers.users))


def _how(approvers: Approvers) -> str:
    if not approvers.groups:
        return "ask one of them to answer"
    return f"ask somebody whose key has the scope approve:{approvers.groups[0]}"
