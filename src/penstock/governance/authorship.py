"""Authorship: whose definitions run, and with whose authority.

A stored definition acts later, without its author, so its author determines what it may do. People, and users of the
operating system who own the file, are trusted. A version that an agent wrote, or a model over MCP or inside a run, is
*proposed*: it has no effect until a person accepts it, or a grant covers the call that stored it. Services are trusted
unless the operator says otherwise.

Accepting a version lets it run. It does not change its author: what a run of it calls is decided as the call of the
weaker of its starter and its author.

Above it: the gate holds calls that store something, operations and hosts ask before something takes effect. Below it:
`principals`. `Author` is the one place that says who wrote a version.
"""

from __future__ import annotations

import msgspec

from penstock.base.scopes import common_scopes
from penstock.governance.principals import PrincipalKind

__all__ = [
    "PROPOSED",
    "PROPOSED_HINT",
    "Author",
    "AuthorshipRules",
    "acts_as_agent",
    "agents_behind",
    "has_to_propose",
    "is_proposed",
    "proposed_message",
    "takes_over",
    "weaker_author",
]

PROPOSED = "VERSION_PROPOSED"
"""The error code of what a proposed version would have done."""
PROPOSED_HINT = "accept it: approve its draft, or store the same version yourself"
_TRUSTED: frozenset[PrincipalKind] = frozenset({"person", "local", "system"})
"""Kinds of principals whose definitions run at once. Anything else proposes, except services if they are trusted."""


class Author(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who wrote a version, and who accepted it."""

    principal: str
    kind: PrincipalKind
    by_model: bool = False
    """Whether a model chose what was written: over MCP, or inside a run."""
    subject: str | None = None
    """The person or machine behind the principal; None if the principal stands for itself."""
    lineage: tuple[str, ...] = ()
    """Who made its key, or a key before it."""
    scopes: tuple[str, ...] | None = None
    """What the author might do when it wrote the version; None if an older release stored it."""
    accepted_by: tuple[str, ...] = ()
    """Who accepted it, if it was proposed."""
    draft_id: str | None = None
    """The held call with which it was proposed."""
    granted: bool = False
    """Whether it takes effect without review, by a grant."""
    sent: bool = False
    """Whether a model sent it along with a run. It takes effect in that run alone."""

    @property
    def names(self) -> tuple[str, ...]:
        """Who it is, and who is behind it: they do not approve what it wrote, where duties are separated."""
        return tuple(dict.fromkeys(name for name in (self.principal, self.subject, *self.lineage) if name is not None))

    @property
    def is_accepted(self) -> bool:
        """Whether a person, or a grant, let it take effect."""
        return self.granted or bool(self.accepted_by)


class AuthorshipRules(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator chose about authors."""

    enforced: bool = False
    """Whether proposed versions have no effect; False for the preset `open`."""
    services_propose: bool = False
    """Whether what services write is proposed, too."""


def has_to_propose(kind: PrincipalKind, rules: AuthorshipRules, *, by_model: bool) -> bool:
    """Whether what a principal stores has to be accepted before it takes effect."""
    if not rules.enforced:
        return False
    if by_model:
        return True
    return rules.services_propose if kind == "service" else kind not in _TRUSTED


def is_proposed(author: Author | None, rules: AuthorshipRules) -> bool:
    """Whether a stored version waits for somebody to accept it.

    None stands for a version of the settings or a file, or of a release that did not record authors.
    """
    if author is None or author.is_accepted:
        return False
    return has_to_propose(author.kind, rules, by_model=author.by_model)


def acts_as_agent(author: Author | None) -> bool:
    """Whether calls by a version count as calls of an agent, even if a person starts it."""
    return author is not None and (author.by_model or author.kind == "agent")


def agents_behind(author: Author | None) -> tuple[str, ...]:
    """Return the names of the agent that wrote a version and of the people behind it; empty if no agent wrote it."""
    return author.names if author is not None and acts_as_agent(author) else ()


def weaker_author(stored: Author | None, new: Author) -> Author:
    """Return the author of a version that changes a part of a stored one: the less trusted of the two.

    A version by an agent stays an agent's when a person changes another part of it.
    """
    if stored is None or _rank(stored) > _rank(new):
        return new
    if not (acts_as_agent(stored) and acts_as_agent(new)):
        return stored if _rank(stored) < _rank(new) else new
    known = [frozenset(author.scopes) for author in (stored, new) if author.scopes is not None]
    scopes = tuple(sorted(common_scopes(known[0], known[-1]))) if known else None
    weaker, other = (stored, new) if _rank(stored) < _rank(new) else (new, stored)
    lineage = tuple(dict.fromkeys((*weaker.lineage, *other.names)))
    return msgspec.structs.replace(weaker, scopes=scopes, lineage=lineage)


def takes_over(stored: Author | None, new: Author | None) -> bool:
    """Whether an author who stores the same version again answers for it from now on."""
    return _rank(new) > _rank(stored)


def _rank(author: Author | None) -> int:
    """Return how much stands behind a version: an agent alone is the least, a person the most."""
    if author is None or (author.kind in _TRUSTED and not author.by_model):
        return 4
    first = 2 if author.kind == "service" and not author.by_model else 0
    return first + (1 if author.is_accepted else 0)


def proposed_message(what: str, author: Author | None, version: str | None = None) -> str:
    """Return why a proposed version has no effect; `what` is its kind and name."""
    named = what if version is None else f"version {version[:12]} of {what}"
    by = "" if author is None else f"; {author.principal} wrote it"
    draft = "" if author is None or author.draft_id is None else f" (draft {author.draft_id})"
    return f"{named} is proposed, and a person must accept it{draft}{by}"
