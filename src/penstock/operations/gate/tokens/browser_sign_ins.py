"""A sign-in with a browser, as the console and `code_flow` pass it on: where it goes, what comes back, what it gave.

Above it: the console, `code_flow`. Below it: nothing. The console starts without the libraries that verify tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["EndedSignIn", "FinishedSignIn", "IssuedTokens", "Leaving", "ReturnedQuery"]


class Leaving(NamedTuple):
    """A browser that goes to the issuer: where, and what has to fit when it comes back."""

    address: str
    state: str
    nonce: str
    verifier: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedTokens:
    """What an issuer gave. Its repr has none of it."""

    access_token: str = field(repr=False)
    refresh_token: str | None = field(repr=False)
    """None if it gave none: there is nothing to refresh the access token with, or the one before stays valid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedSignIn:
    """What a finished sign-in gave."""

    tokens: IssuedTokens
    id_token: str = field(repr=False)
    """Shown to the issuer again when somebody signs out there."""
    subject: str | None
    """Who signed in, as the ID token says in the claim that names callers; None if it has no such claim."""
    id_subject: str
    """Who signed in, as the issuer calls them (`sub`)."""
    session: str | None = None
    """The sign-in, as the issuer calls it (`sid`); None if it has no name."""


class EndedSignIn(NamedTuple):
    """Whose sign-ins have ended at the issuer, or which one, in its own words."""

    subject: str | None
    session: str | None
    token_id: str
    """The id of the token that says so."""


class ReturnedQuery(NamedTuple):
    """What the browser brought back from the issuer."""

    code: str
    state: str
    issuer: str
    error: str
