"""A sign-in with a browser, as the console and `code_flow` pass it on: where it goes, what comes back, what it gave.

Above it: the console, `code_flow`. Below it: nothing. The console starts without the libraries that verify tokens.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["FinishedSignIn", "Leaving", "ReturnedQuery"]


class Leaving(NamedTuple):
    """A browser that goes to the issuer: where, and what has to fit when it comes back."""

    address: str
    state: str
    nonce: str
    verifier: str


class FinishedSignIn(NamedTuple):
    """What a finished sign-in gave."""

    access_token: str
    subject: str | None
    """Who signed in, as the ID token says in the claim that names callers; None if it has no such claim."""


class ReturnedQuery(NamedTuple):
    """What the browser brought back from the issuer."""

    code: str
    state: str
    issuer: str
    error: str
