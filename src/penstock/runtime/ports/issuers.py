"""The port to issuers of tokens: their documents, and what they say about a token.

Above it: `operations.gate.tokens`. Below it: an adapter in `runtime.executors`; `app` passes it in. Implementations
bound the size and the time of every answer, follow no redirects and use HTTPS, except on this machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

__all__ = [
    "Fetched",
    "GrantRefused",
    "IntrospectionRequest",
    "IssuerClient",
    "IssuerResponse",
    "NotFetched",
    "TokenRequest",
    "TokenResponse",
]


@dataclass(frozen=True, slots=True)
class Fetched:
    """The body of an answer with status 200."""

    body: bytes


@dataclass(frozen=True, slots=True)
class NotFetched:
    """Why there is no answer, for the operator: it names no token and no secret."""

    reason: str


IssuerResponse: TypeAlias = Fetched | NotFetched


@dataclass(frozen=True, slots=True)
class GrantRefused:
    """The issuer refused to give tokens (RFC 6749, section 5.2)."""

    error: str
    """The error code that it sent."""


TokenResponse: TypeAlias = Fetched | NotFetched | GrantRefused


@dataclass(frozen=True, slots=True, kw_only=True)
class IntrospectionRequest:
    """A question about a token (RFC 7662). Its repr leaves out the token and the secret."""

    url: str
    token: str = field(repr=False)
    client_id: str
    client_secret: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRequest:
    """A code or a refresh token that is exchanged for tokens (RFC 6749). Its repr leaves out what is secret."""

    url: str
    grant: Mapping[str, str] = field(repr=False)
    """The fields of the grant: its type, and what proves it."""
    client_id: str
    client_secret: str | None = field(repr=False)
    """None for a client that has none."""
    resource: str
    secret_in_header: bool = True
    """Whether the secret is sent as the issuer prefers it, in a header, or as a field of the form."""


class IssuerClient(Protocol):
    """Asks issuers. Every failure is returned as a reason."""

    async def fetch(self, url: str) -> IssuerResponse:
        """Return a document."""

    async def introspect(self, request: IntrospectionRequest) -> IssuerResponse:
        """Return what an issuer says about a token."""

    async def exchange(self, request: TokenRequest) -> TokenResponse:
        """Return the tokens that an issuer gives for a code or a refresh token."""

    async def revoke(self, request: TokenRequest) -> IssuerResponse:
        """Revoke the token of a grant at the issuer (RFC 7009).

        For an unknown token, the issuer reports success, too.
        """

    async def close(self) -> None:
        """Close the connections."""
