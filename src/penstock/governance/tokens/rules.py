"""What an operator decides about an issuer of tokens, and why a token is refused.

Above it: the other modules of this package, the gate, `app` (which builds the rules from settings). Below it: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from penstock.base.ids import DEFAULT_TENANT

__all__ = ["ALGORITHMS", "IssuerRules", "RefusalCode", "TokenRefusal", "without_slash"]

ALGORITHMS: tuple[str, ...] = ("RS256", "PS256", "ES256", "EdDSA")
"""The algorithms that an issuer may sign with. All of them use key pairs: what verifies a token cannot make one."""

RefusalCode: TypeAlias = Literal["TOKEN_INVALID", "TOKEN_EXPIRED"]


@dataclass(frozen=True, slots=True)
class TokenRefusal:
    """Why a token is refused, in words that its holder may read."""

    message: str
    code: RefusalCode = "TOKEN_INVALID"


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuerRules:
    """One issuer: who it is, which of its tokens count here, and what their claims mean.

    Groups of a token get the name of the issuer and a dot in front, unless `group_map` names them: two issuers may both
    have a group "admin", and these are not the same people.
    """

    name: str
    """What the issuer is called here: a part of the ids of its principals, and the prefix of their groups."""
    issuer: str
    audiences: frozenset[str]
    """The audiences that stand for this server, without a slash at the end."""
    algorithms: frozenset[str] = frozenset(ALGORITHMS)
    subject_claim: str = "sub"
    tenant: str = DEFAULT_TENANT
    """The tenant of its principals, unless `tenant_claim` names the claim that says it."""
    tenant_claim: str | None = None
    tenant_map: Mapping[str, str] | None = None
    """The tenant for each value of that claim; None if the values are names of tenants."""
    groups_claim: str = "groups"
    group_map: Mapping[str, str] | None = None
    """The group for each value; other values are ignored."""
    scopes_claim: str | None = None
    """The claim with the scopes; None for `scope`, or `scp` if there is no such claim."""
    scope_map: Mapping[str, tuple[str, ...]] | None = None
    """The scopes for each value; other values are ignored."""
    kind_claim: str | None = None
    agent_clients: frozenset[str] = field(default=frozenset())
    """The client ids whose tokens stand for agents."""
    service_clients: frozenset[str] = field(default=frozenset())


def without_slash(address: str) -> str:
    """Return an address without the slash at its end: an audience counts with and without it."""
    return address.rstrip("/")
