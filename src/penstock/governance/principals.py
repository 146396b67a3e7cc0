"""Principals: who calls, and with which authority.

A principal has a kind, because some rules depend on it: a call that an agent makes may have to wait for a person, and
only people approve. A principal that acts for others names them in `acting_for`, the nearest first. Authority can only
narrow along that chain.

A principal is a credential; behind it is a subject. All keys that one person has, by rotation or because they made
them, have the same subject. Separation of duties and quotas count subjects.

Above it: the gate makes principals from credentials, policies and the audit log read them. Below it: nothing but data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from penstock.base.ids import DEFAULT_TENANT
from penstock.base.json import JsonValue
from penstock.base.scopes import EVERYTHING, scope_allows

__all__ = ["KEY_KINDS", "KeyKind", "Principal", "PrincipalKind", "TokenReference", "may_create_kind"]

KeyKind: TypeAlias = Literal["person", "agent", "service"]
"""The kinds that a credential can stand for."""
KEY_KINDS: tuple[KeyKind, ...] = get_args(KeyKind)
PrincipalKind: TypeAlias = Literal["person", "agent", "service", "local", "schedule", "webhook", "system", "anonymous"]
"""`local` is a user of the operating system who can open the file; `system` is a part of Penstock itself."""

# Whether a key counts as a person decides what it may approve, so nobody makes a key of a kind above their own.
_CREATABLE: dict[PrincipalKind, frozenset[KeyKind]] = {
    "agent": frozenset({"agent"}),
    "service": frozenset({"agent", "service"}),
    "person": frozenset(KEY_KINDS),
    "local": frozenset(KEY_KINDS),
    "system": frozenset(KEY_KINDS),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenReference:
    """The token that authenticated a caller, by what is known of it; never the token itself."""

    issuer: str
    """The name of the issuer in the settings."""
    subject: str
    tenant: str
    expires_at: int
    """When it stops being accepted, in milliseconds."""
    token_id: str | None = None
    """Its `jti`; None if the issuer gives none, and it can be revoked by its subject only."""

    @property
    def name(self) -> str:
        """The credential as records name it."""
        return f"token:{self.issuer}:{self.token_id or self.subject}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who calls. `Gate.authenticate` returns it, or the process makes it itself (the local owner, a trigger)."""

    id: str
    tenant: str
    kind: PrincipalKind
    scopes: frozenset[str]
    groups: frozenset[str] = frozenset()
    """The groups that it belongs to, by the names that policies and approvals use."""
    key_id: str | None = None
    name: str = ""
    toolset: str | None = None
    """The toolset of the key; None for the server's default."""
    attributes: Mapping[str, JsonValue] = field(default_factory=dict)
    acting_for: tuple[str, ...] = ()
    """The principals on whose behalf it acts, the nearest first; the permissions of the nearest apply."""
    credential: str | None = None
    """What authenticated the caller instead of a key: the name of a secret or of a token, never the secret."""
    token: TokenReference | None = None
    """The token that authenticated the caller, if it was one."""
    owner: str | None = None
    """The principal that made the key."""
    subject: str | None = None
    """The person or machine behind the credential; None if the principal stands for itself."""
    lineage: tuple[str, ...] = ()
    """The subjects that made the key, or a key before it, or made theirs: each of them may know its secret."""
    accounts: tuple[str, ...] = ()
    """Whose quotas its starts count for, beside its subject; a key that replaced others counts for the first."""

    @property
    def subject_id(self) -> str:
        """The person or machine behind the credential."""
        return self.subject or self.id

    @property
    def proof(self) -> str | TokenReference | None:
        """The credential that may be revoked or expire during a call: the id of a key, or a token."""
        return self.key_id if self.token is None else self.token

    @property
    def is_operator(self) -> bool:
        """Whether it has every scope in the default tenant, and so owns the server."""
        return self.tenant == DEFAULT_TENANT and scope_allows(self.scopes, EVERYTHING)

    @property
    def on_behalf_of(self) -> str | None:
        """The principal whose permissions apply, if it acts for another."""
        return self.acting_for[0] if self.acting_for else None

    @property
    def credential_noun(self) -> str:
        """What the caller was authenticated with, in the words of a message."""
        return "this key" if self.token is None else "this token"

    @property
    def scope_hint(self) -> str:
        """How the caller may get a scope."""
        if self.token is None:
            return "ask the owner for a key with that scope"
        return "sign in again and ask the issuer for that scope"

    @property
    def credential_id(self) -> str | None:
        """The id of the credential: of a key, a token or a secret; never a secret itself."""
        return self.key_id or self.credential


def may_create_kind(maker: PrincipalKind, wanted: KeyKind) -> bool:
    """Whether a principal of one kind may create a key of another kind."""
    return wanted in _CREATABLE.get(maker, frozenset())
