"""What a policy decides about a call: permitted, forbidden, or permitted once people have approved it.

`ApprovalRequired` is neither yes nor no. The gate hands it to the stage that holds calls; a gate without such a stage
refuses the call.

Above it: `decisions` makes these, the gate and held calls read them. Below it: nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass
from typing import TypeAlias

__all__ = [
    "ApprovalRequired",
    "ApprovalRequirement",
    "Forbidden",
    "Permitted",
    "PolicyOutcome",
    "approvals_suffice",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Permitted:
    """The call may be made. `policy_ids` are the policies that permit it."""

    policy_version: str
    policy_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Forbidden:
    """The call may not be made: a policy forbids it, no policy permits it, or deciding failed.

    `reasons` are sentences for people who may read policies; nobody else gets them.
    """

    policy_version: str
    policy_ids: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    failed: bool = False
    """Whether a policy could not be evaluated: the arguments may be at fault, and their validation says it better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequirement:
    """What one policy demands: `quorum` different people, each a member of at least one of the groups `approvers`.

    If they have not decided after `escalate_after_ms`, members of `escalate_to` may, too.
    """

    policy_id: str
    approvers: tuple[str, ...]
    quorum: int = 1
    services: bool = False
    """Whether services may approve, too. Otherwise only people do."""
    escalate_after_ms: int | None = None
    escalate_to: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequired:
    """The call may be made once people have approved it. Every requirement has to be met; one person may meet several.

    Only forbids that ask for approval stand in the way, and a permit covers the call.
    """

    policy_version: str
    requirements: tuple[ApprovalRequirement, ...]

    @property
    def policy_ids(self) -> tuple[str, ...]:
        """The policies that ask for approval."""
        return tuple(item.policy_id for item in self.requirements)

    @property
    def approvers(self) -> tuple[str, ...]:
        """Every group that is asked, for showing and notifying; `approvals_suffice` says when it is enough."""
        return tuple(dict.fromkeys(group for item in self.requirements for group in item.approvers))

    @property
    def quorum(self) -> int:
        """The largest number of people that one policy demands."""
        return max(item.quorum for item in self.requirements)


PolicyOutcome: TypeAlias = Permitted | Forbidden | ApprovalRequired


def approvals_suffice(requirements: Iterable[ApprovalRequirement], approvals: Iterable[tuple[str, Set[str]]]) -> bool:
    """Whether approvals, each by a person with their groups, meet every requirement. One person counts once.

    The groups are those for which a vote counted when it was given, so the groups of an escalation are only among them
    if it had been escalated.
    """
    people: dict[str, set[str]] = {}
    for person, groups in approvals:
        people.setdefault(person, set()).update(groups)
    return all(
        sum(1 for groups in people.values() if groups.intersection((*item.approvers, *item.escalate_to))) >= item.quorum
        for item in requirements
    )
