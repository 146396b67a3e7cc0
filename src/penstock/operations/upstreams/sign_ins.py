"""Operations to sign in to MCP servers that want OAuth, and to sign out.

A sign-in has two halves. `begin_sign_in` gives the address at which a person signs in; `complete_sign_in` takes what
the authorization server sent them back with. Their caller waits for the person in between: the command
`penstock tool upstream sign-in` listens on the person's own machine, so that the server needs no address of its own.

The tokens belong to the operator, like credentials in the settings: only the default tenant signs in, for all tenants
that may use the server. They are stored encrypted, and no operation gives them.

Above it: the catalogue. Below it: `runtime.upstreams.oauth`.
"""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from penstock.base import limits
from penstock.base.errors import NotFound, Rejected
from penstock.base.ids import DEFAULT_TENANT
from penstock.operations.catalogue.capability import Capability, Example, Reply, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import Deleted, instant
from penstock.operations.gate import idempotency
from penstock.operations.gate.context import Context
from penstock.runtime.ports.platform import CallRecord
from penstock.runtime.upstreams.oauth.grants import KEEP_GRANT
from penstock.runtime.upstreams.oauth.sign_ins import Begun, SignInAnswer, SignInStatus, UpstreamSignIns

__all__ = ["OPERATIONS", "SignInView", "sign_in_view"]

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_URL_CHARACTERS_MAX = 2_000
_ERROR_CHARACTERS_MAX = 200

ServerName = Annotated[
    str, Meta(description="The server, by its name in the settings.", max_length=200, examples=["shop"])
]
Scope = Annotated[str, Meta(min_length=1, max_length=limits.OAUTH_SCOPE_CHARACTERS_MAX, pattern=r"^[!#-\[\]-~]+$")]


class BeginSignIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where to sign in, and where to come back to."""

    server: ServerName
    redirect_uri: Annotated[
        str,
        Meta(
            description="Where the authorization server sends the person back to: an address on their own machine.",
            max_length=_URL_CHARACTERS_MAX,
            examples=["http://127.0.0.1:40123/callback"],
        ),
    ]
    scopes: Annotated[
        list[Scope],
        Meta(
            description="Scopes to ask for besides those that the settings, or the server, ask for.",
            max_length=limits.OAUTH_SCOPES_MAX,
        ),
    ] = []


class BegunSignIn(msgspec.Struct, frozen=True, kw_only=True):
    """A sign-in that has begun."""

    server: str
    authorization_url: str
    """Where the person signs in."""
    issuer: str
    scopes: list[str]
    expires_at: str | None
    """Until when it can be completed."""


class CompleteSignIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the person came back with: the parameters of the address, as they are."""

    server: ServerName
    state: Annotated[str, Meta(description="The parameter `state`.", max_length=_ERROR_CHARACTERS_MAX)]
    code: (
        Annotated[str, Meta(description="The parameter `code`.", max_length=limits.OAUTH_TOKEN_CHARACTERS_MAX)] | None
    ) = None
    iss: Annotated[str, Meta(description="The parameter `iss`.", max_length=_URL_CHARACTERS_MAX)] | None = None
    error: Annotated[str, Meta(description="The parameter `error`.", max_length=_ERROR_CHARACTERS_MAX)] | None = None


class SignOut(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where to sign out."""

    server: ServerName


class KeepGrant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The server whose grant has changed."""

    server: str


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """Whether it was stored: not if another process was faster."""

    stored: bool


class SignInView(msgspec.Struct, frozen=True, kw_only=True):
    """How the sign-in to a server stands."""

    server: str
    status: str
    """signed_in, required, or not_needed where the server is used in our own name (client_credentials)."""
    issuer: str | None = None
    scopes: list[str] = []
    expires_at: str | None = None
    """When the token expires."""
    renews: bool = False
    """Whether the server renews it automatically."""
    signed_in_at: str | None = None
    signed_in_by: str | None = None


def sign_in_view(server: str, status: SignInStatus, tenant: str) -> SignInView:
    """Return how a sign-in stands, as callers of a tenant see it.

    The sign-in is the operator's: tenants that may use the server learn whether there is one, not whose it is.
    """
    if tenant != DEFAULT_TENANT:
        return SignInView(server=server, status=status.status)
    return SignInView(
        server=server,
        status=status.status,
        issuer=status.issuer,
        scopes=list(status.scopes),
        expires_at=instant(status.expires_at),
        renews=status.renews,
        signed_in_at=instant(status.signed_in_at),
        signed_in_by=status.signed_in_by,
    )


def _sign_ins(context: Context, server: str) -> UpstreamSignIns:
    found = context.services.sign_ins
    if context.tenant != DEFAULT_TENANT or server not in found.servers:
        message = f"there is no server {server} with `auth` in the settings"
        raise NotFound("UPSTREAM_NOT_FOUND", message, "list them with upstream.list")
    return found


async def _find_server(context: Context, given: BeginSignIn | CompleteSignIn | SignOut) -> None:
    """Find the server that the input of a call names."""
    _sign_ins(context, given.server)


def _refuse_foreign_address(redirect_uri: str) -> None:
    """A code that is sent elsewhere is a code for somebody else."""
    try:
        parts = urlsplit(redirect_uri)
        is_own = parts.scheme == "http" and parts.hostname in _LOOPBACK and parts.port is not None
    except ValueError:
        is_own = False
    if not is_own or "@" in redirect_uri or "#" in redirect_uri or "\\" in redirect_uri:
        message = "`redirect_uri` must be an address on the person's own machine, with a port"
        raise Rejected("INVALID_ARGUMENTS", message, "use http://127.0.0.1:PORT/callback")


@operation(
    "upstream.begin_sign_in",
    route=Route(method="POST", path="/upstreams/{server}/sign-in"),
    scopes=("upstream:admin",),
    risk="high",
    bucket="admin",
    open_world=True,
    subject="server",
    find=_find_server,
    errors=(
        "UPSTREAM_NOT_FOUND",
        "UPSTREAM_SIGN_IN_NOT_NEEDED",
        "UPSTREAM_SIGN_IN_REFUSED",
        "UPSTREAM_AUTHORIZATION_FAILED",
        "UPSTREAM_AUTHORIZATION_UNAVAILABLE",
    ),
    examples=(Example(arguments={"server": "shop", "redirect_uri": "http://127.0.0.1:40123/callback"}),),
)
async def begin_sign_in(context: Context, given: BeginSignIn) -> BegunSignIn:
    """Begin to sign in to a server.

    Finds its authorization server and returns the address at which a person signs in. Pass the parameters that they
    come back with to upstream.complete_sign_in within ten minutes. `penstock tool upstream sign-in` does both.
    """
    sign_ins = _sign_ins(context, given.server)
    _refuse_foreign_address(given.redirect_uri)

    def answer(begun: Begun) -> BegunSignIn:
        return BegunSignIn(
            server=given.server,
            authorization_url=begun.authorization_url,
            issuer=begun.issuer,
            scopes=list(begun.scopes),
            expires_at=instant(begun.expires_at),
        )

    def call(begun: Begun) -> CallRecord:
        context.call.about(None, issuer=begun.issuer, scopes=list(begun.scopes))
        return idempotency.answered(context, Reply(value=answer(begun)))

    return answer(await sign_ins.begin(given.server, given.redirect_uri, given.scopes, call))


@operation(
    "upstream.complete_sign_in",
    route=Route(method="POST", path="/upstreams/{server}/sign-in/complete"),
    scopes=("upstream:admin",),
    risk="high",
    bucket="admin",
    open_world=True,
    subject="server",
    find=_find_server,
    errors=(
        "UPSTREAM_NOT_FOUND",
        "SIGN_IN_NOT_FOUND",
        "UPSTREAM_SIGN_IN_NOT_NEEDED",
        "UPSTREAM_SIGN_IN_REFUSED",
        "UPSTREAM_AUTHORIZATION_FAILED",
        "UPSTREAM_AUTHORIZATION_UNAVAILABLE",
    ),
    examples=(Example(arguments={"server": "shop", "state": "bXkgc3RhdGU", "code": "c29tZSBjb2Rl"}),),
)
async def complete_sign_in(context: Context, given: CompleteSignIn) -> SignInView:
    """Complete a sign-in to a server.

    Takes the parameters that the person came back with. Checks that they belong to this sign-in and come from its
    authorization server. Then exchanges the code for tokens and stores the tokens encrypted.
    """
    sign_ins = _sign_ins(context, given.server)

    def call(status: SignInStatus) -> CallRecord:
        context.call.about(None, issuer=status.issuer, scopes=list(status.scopes))
        return idempotency.answered(context, Reply(value=sign_in_view(given.server, status, context.tenant)))

    answer = SignInAnswer(state=given.state, code=given.code, iss=given.iss, error=given.error)
    status = await sign_ins.complete(given.server, answer, context.principal.id, call)
    return sign_in_view(given.server, status, context.tenant)


@operation(
    "upstream.sign_out",
    route=Route(method="DELETE", path="/upstreams/{server}/sign-in"),
    scopes=("upstream:admin",),
    risk="medium",
    bucket="admin",
    destructive=True,
    idempotent=True,
    open_world=True,
    subject="server",
    find=_find_server,
    errors=("UPSTREAM_NOT_FOUND", "UPSTREAM_SIGN_IN_NOT_NEEDED"),
    examples=(Example(arguments={"server": "shop"}),),
)
async def sign_out(context: Context, given: SignOut) -> Deleted:
    """Sign out of a server.

    Deletes the tokens and informs the authorization server. Calls of its tools fail until somebody signs in again.
    """
    sign_ins = _sign_ins(context, given.server)
    answer = Deleted(id=given.server)
    await sign_ins.sign_out(given.server, idempotency.answered(context, Reply(value=answer)))
    return answer


@operation(KEEP_GRANT, route=None, scopes=("upstream:admin",), subject="server")
async def keep_grant(context: Context, given: KeepGrant) -> Kept:
    """Keep the tokens of a server that were renewed."""
    grants = context.services.sign_ins.grants
    return Kept(stored=grants is not None and await grants.keep(given.server, context.call))


OPERATIONS: tuple[Capability, ...] = (begin_sign_in, complete_sign_in, sign_out, keep_grant)
