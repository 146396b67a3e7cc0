"""What an operator decides about tokens: which issuers are trusted, and what clients learn.

Above it: `app`, which builds it from settings; the gate. Below it: `governance.tokens`, the port to issuers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.governance.tokens.rules import IssuerRules
from penstock.operations.gate.tokens.introspection import Introspection
from penstock.operations.gate.tokens.protected_resource import ProtectedResource
from penstock.runtime.ports.issuers import IssuerClient

__all__ = ["BrowserClient", "TokenChoices", "TrustedIssuer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserClient:
    """The client that the console is at an issuer, for people who sign in with a browser."""

    client_id: str
    client_secret: Callable[[], str] | None
    """Looks the secret up; None for a client that has none."""
    redirect_uri: str
    signed_out_uri: str
    """Where a browser comes back to that signed out at the issuer."""
    scopes: tuple[str, ...]
    resource: str
    """The resource to request an access token for, which is the audience of this server."""
    takes_logouts: bool = False
    """Whether the issuer may end sessions by itself (back-channel logout)."""
    label: str | None = None
    """What people call the issuer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedIssuer:
    """An issuer as the operator configured it."""

    rules: IssuerRules
    jwks_url: str | None = None
    """Where its keys are; None to ask its metadata."""
    introspection: Introspection | None = None
    browser: BrowserClient | None = None
    """How people sign in to the console there; None if they cannot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenChoices:
    """Which tokens are accepted, and what clients learn."""

    issuers: tuple[TrustedIssuer, ...]
    protected: ProtectedResource
    new_client: Callable[[], IssuerClient]
    """Makes the adapter that asks issuers."""
