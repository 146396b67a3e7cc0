"""What an operator decides about tokens: which issuers are trusted, and what clients are told.

Above it: `app`, which builds it from settings; the gate. Below it: `governance.tokens`, the port to issuers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.governance.tokens.rules import IssuerRules
from penstock.operations.gate.tokens.introspection import Introspection
from penstock.operations.gate.tokens.protected_resource import ProtectedResource
from penstock.runtime.ports.issuers import IssuerClient

__all__ = ["TokenChoices", "TrustedIssuer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedIssuer:
    """An issuer as the operator configured it."""

    rules: IssuerRules
    jwks_url: str | None = None
    """Where its keys are; None to ask its metadata."""
    introspection: Introspection | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenChoices:
    """Which tokens are accepted, and what clients are told."""

    issuers: tuple[TrustedIssuer, ...]
    protected: ProtectedResource
    new_client: Callable[[], IssuerClient]
    """Makes the adapter that asks issuers."""
