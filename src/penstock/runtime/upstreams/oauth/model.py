"""OAuth at other MCP servers as values: settings, what a server demands, what was granted, and the ports.

Every value that holds a secret leaves it out of its printed form.

Above it: `grants`, `bearers`, `sign_ins`, the MCP executor. Below it: nothing. It does no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from penstock.base.errors import Conflict, Unavailable

__all__ = [
    "AUTHORIZATION_CODES",
    "AuthorizationServer",
    "BearerSource",
    "Challenge",
    "ClientMethod",
    "Discovery",
    "Grant",
    "GrantRefused",
    "GrantType",
    "OAuthClient",
    "OAuthProtocol",
    "OAuthServer",
    "PendingSignIn",
    "Tokens",
    "authorization_failed",
    "authorization_unavailable",
    "sign_in_required",
    "union_of",
]

GrantType: TypeAlias = Literal["authorization_code", "client_credentials"]
ClientMethod: TypeAlias = Literal["none", "client_secret_basic", "client_secret_post", "private_key_jwt"]
_FORBIDDEN: Final = 403
AUTHORIZATION_CODES: Final = frozenset(
    {
        "UPSTREAM_SIGN_IN_REQUIRED",
        "UPSTREAM_AUTHORIZATION_FAILED",
        "UPSTREAM_AUTHORIZATION_UNAVAILABLE",
        "SECRET_UNREADABLE",
    }
)
"""Why there may be no token for a request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthServer:
    """How we sign in to one MCP server, as the settings say. Secrets are read when they are needed."""

    name: str
    url: str
    grant: GrantType
    client_id: str | None = None
    client_metadata_url: str | None = None
    client_secret: Callable[[], str] | None = field(default=None, repr=False)
    private_key: Callable[[], str] | None = field(default=None, repr=False)
    issuer: str | None = None
    scopes: tuple[str, ...] = ()


class Challenge(msgspec.Struct, frozen=True, kw_only=True):
    """What a server said when it refused a request: with status 401, or with 403 because scopes are missing."""

    status: int
    metadata_url: str | None = None
    scopes: tuple[str, ...] | None = None

    @property
    def wants_scopes(self) -> bool:
        """Whether the token was valid and lacks scopes."""
        return self.status == _FORBIDDEN


class AuthorizationServer(msgspec.Struct, frozen=True, kw_only=True):
    """An authorization server, as its own metadata describe it."""

    issuer: str
    token_endpoint: str
    authorization_endpoint: str | None = None
    registration_endpoint: str | None = None
    revocation_endpoint: str | None = None
    methods: tuple[str, ...] | None = None
    """The ways to authenticate a client that it lists; None if it lists none."""
    signing_algorithms: tuple[str, ...] | None = None
    scopes: tuple[str, ...] | None = None
    takes_metadata_urls: bool = False
    """Whether the address of a metadata document is a client id there."""
    sends_issuer: bool = False
    """Whether it names itself in the answer of a sign-in."""
    has_pkce: bool = False


class Discovery(msgspec.Struct, frozen=True, kw_only=True):
    """Where to get a token for a server, and what to ask for."""

    authorization: AuthorizationServer
    resource: str
    scopes: tuple[str, ...] | None = None
    """The scopes that the server itself lists."""


class OAuthClient(msgspec.Struct, frozen=True, kw_only=True):
    """Who we are at an authorization server. A secret from the settings is not in here, only one that was issued."""

    client_id: str
    method: ClientMethod
    issued_secret: str | None = None
    redirect_uri: str | None = None
    """For a registered client: the only address that it may be sent back to."""

    def __repr__(self) -> str:
        return f"OAuthClient({self.client_id!r}, {self.method})"


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """What a token endpoint gave."""

    access_token: str
    refresh_token: str | None = None
    expires_in_seconds: int | None = None
    scopes: tuple[str, ...] | None = None
    """None: exactly the requested ones."""

    def __repr__(self) -> str:
        return "Tokens(…)"


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """What a person's sign-in gave us. It is stored encrypted, as a whole."""

    url: str
    """The server that the tokens are for. They are sent nowhere else, whatever the settings say later."""
    authorization: AuthorizationServer
    resource: str
    client: OAuthClient
    access_token: str
    refresh_token: str | None
    scopes: tuple[str, ...]
    expires_at: int | None
    obtained_at: int
    signed_in_at: int
    signed_in_by: str
    ended: bool = False
    """Whether the authorization server has refused to renew it."""

    def __repr__(self) -> str:
        return f"Grant({self.url!r}, {self.authorization.issuer!r})"


class PendingSignIn(msgspec.Struct, frozen=True, kw_only=True):
    """A sign-in that a person has begun."""

    url: str
    state: str
    verifier: str
    redirect_uri: str
    authorization: AuthorizationServer
    resource: str
    client: OAuthClient
    scopes: tuple[str, ...]
    expires_at: int

    def __repr__(self) -> str:
        return f"PendingSignIn({self.url!r})"


class GrantRefused(Exception):
    """A token endpoint refused: `code` is the error of RFC 6749, such as `invalid_grant`."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class OAuthProtocol(Protocol):
    """The requests of OAuth. They raise `Conflict` or `Unavailable` with our codes, or `GrantRefused`."""

    async def probe(self, server: OAuthServer) -> Challenge | None:
        """Ask a server without a token what it demands."""

    async def discover(self, server: OAuthServer, challenge: Challenge | None) -> Discovery:
        """Find the authorization server of a server, and check that they belong together."""

    async def register(
        self, server: OAuthServer, found: Discovery, redirect_uri: str, scopes: Sequence[str]
    ) -> OAuthClient:
        """Register a client."""

    def configured_client(self, server: OAuthServer, found: Discovery) -> OAuthClient | None:
        """The client that the settings name; None if it has to be registered."""

    def authorization_url(self, pending: PendingSignIn) -> str:
        """The address at which a person signs in."""

    async def exchange_code(self, server: OAuthServer, pending: PendingSignIn, code: str) -> Tokens:
        """Exchange the code of a sign-in for tokens."""

    async def refresh(self, server: OAuthServer, grant: Grant) -> Tokens:
        """Renew a grant."""

    async def client_credentials(
        self, server: OAuthServer, found: Discovery, client: OAuthClient, scopes: Sequence[str]
    ) -> Tokens:
        """Get a token in our own name."""

    async def revoke(self, server: OAuthServer, grant: Grant) -> None:
        """Tell the authorization server that a grant is not needed any more. Raises nothing."""

    async def close(self) -> None:
        """Close the connections."""


class BearerSource(Protocol):
    """Gives the requests to one server their token."""

    async def token(self) -> str | None:
        """Return the token for a request, renewed if it is about to expire; None if no token exists yet."""

    async def renewed(self, challenge: Challenge, used: str | None, *, again: bool) -> str:
        """Another token, after a request with `used` was refused. Raises if only a person can help.

        `again` says that the request was refused with a renewed token already.
        """

    def secrets(self) -> tuple[str, ...]:
        """Return the tokens in recent use. They must be masked wherever they appear."""


def union_of(*given: Sequence[str]) -> tuple[str, ...]:
    """All scopes of several lists, each once, in order."""
    return tuple(dict.fromkeys(scope for scopes in given for scope in scopes))


def sign_in_required(server: str, reason: str, scopes: Sequence[str] = ()) -> Conflict:
    """The error of a call for which a person has to sign in first."""
    more = "".join(f" --scopes {scope}" for scope in scopes)
    hint = f"sign in with `penstock tool upstream sign-in {server}{more}`"
    return Conflict("UPSTREAM_SIGN_IN_REQUIRED", f"{server}: {reason}", hint)


def authorization_failed(server: str, reason: str, hint: str | None = None) -> Conflict:
    """The error of a call that no sign-in would help."""
    return Conflict("UPSTREAM_AUTHORIZATION_FAILED", f"{server}: {reason}", hint or f"check mcp_servers.{server}.auth")


def authorization_unavailable(server: str, reason: str) -> Unavailable:
    """The error of a call that may succeed later."""
    return Unavailable("UPSTREAM_AUTHORIZATION_UNAVAILABLE", f"{server}: {reason}", "try again later")
