"""Settings of identity: the issuers whose access tokens are accepted, and of the principal of a pipe.

Above it: `model`. Below it: `composite_types`, `formats`. `app.identity` builds what the gate needs from them.
"""

# No `from __future__ import annotations`: the annotations are the declarations, and are read at run time.

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Literal

from msgspec import Struct

from penstock.app.settings.composite_types import Field
from penstock.app.settings.formats import ALGORITHM, ISSUER_NAME, PRINCIPAL, SCOPE, SCOPE_NAME, SECURE_URL, TENANT
from penstock.app.settings.named import ItemProblem
from penstock.app.settings.secrets import CommandReference, EnvironmentReference, FileReference
from penstock.base import limits
from penstock.base.scopes import SCOPE_HINT, is_scope
from penstock.governance.tokens.rules import ALGORITHMS

__all__ = ["BrowserClientSettings", "IntrospectionSettings", "IssuerSettings", "OauthSettings", "PipeSettings"]

_References = EnvironmentReference | FileReference | CommandReference


class IntrospectionSettings(Struct, frozen=True, kw_only=True):
    """Token introspection (RFC 7662), for issuers whose tokens are opaque."""

    url: Annotated[str, Field("The introspection endpoint of the issuer.", format=SECURE_URL)]
    client_id: Annotated[str, Field("The client id of this server at the issuer.")]
    client_secret: Annotated[_References, Field("The secret of that client.")]


class BrowserClientSettings(Struct, frozen=True, kw_only=True):
    """The console as a client of an issuer, where people sign in with a browser (OpenID Connect).

    Its redirect address is `server.public_url` with `/console/sign-in/callback`.
    """

    client_id: Annotated[str, Field("The client id of the console at the issuer.")]
    client_secret: Annotated[_References | None, Field("The secret of that client; a public client has none.")] = None
    scopes: Annotated[
        tuple[str, ...],
        Field("The scopes to request besides `openid`; unless set, the scopes that MCP clients request."),
    ] = ()
    back_channel_logout: Annotated[
        bool,
        Field(
            "Whether the issuer may end sessions when somebody signs out there. It sends logout tokens to "
            "`server.public_url` with `/console/back-channel-logout/NAME`."
        ),
    ] = False
    label: Annotated[str | None, Field("The name on the sign-in button; unless set, the issuer's name.")] = None


class IssuerSettings(Struct, frozen=True, kw_only=True):
    """An issuer of access tokens. Its name here is part of the ids of its principals (`token:NAME:SUBJECT`)."""

    issuer: Annotated[str, Field("The issuer exactly as its tokens name it (`iss`).", format=SECURE_URL)]
    jwks_url: Annotated[
        str | None, Field("The address of its signing keys; unless set, its metadata names it.", format=SECURE_URL)
    ] = None
    audience: Annotated[
        tuple[str, ...],
        Field(
            "The audience (`aud`) that its tokens have for this server; unless set, `server.public_url` with "
            "`server.mcp.path`."
        ),
    ] = ()
    algorithms: Annotated[
        tuple[str, ...],
        Field(f"The algorithms that it may sign with, some of {', '.join(ALGORITHMS)}.", format=ALGORITHM),
    ] = ALGORITHMS
    subject_claim: Annotated[str, Field("The claim that identifies the caller.")] = "sub"
    tenant: Annotated[str, Field("The tenant of its callers, if no claim names it.", format=TENANT)] = "default"
    tenant_claim: Annotated[str | None, Field("The claim that names the tenant of a caller.")] = None
    tenant_map: Annotated[
        Mapping[str, str],
        Field("The tenant for each value of that claim; without entries, the values are names of tenants."),
    ] = {}
    groups_claim: Annotated[str, Field("The claim that lists the groups of a caller; dots lead into objects.")] = (
        "groups"
    )
    group_map: Annotated[
        Mapping[str, str],
        Field(
            "The group here for each group of the issuer; other groups are ignored. Without entries, all groups "
            "count, prefixed with the name of the issuer and a dot."
        ),
    ] = {}
    scopes_claim: Annotated[
        str | None,
        Field("The claim with the scopes, as text or as a list; unless set, `scope`, or else `scp`."),
    ] = None
    scope_map: Annotated[
        Mapping[str, tuple[str, ...]],
        Field(
            "The scopes here for each scope of the issuer; other scopes are ignored. Without entries, scopes count "
            "unchanged, except scopes with `*`.",
            format=SCOPE_NAME,
        ),
    ] = {}
    kind_claim: Annotated[
        str | None, Field("The claim with the kind of the caller: `person`, `agent` or `service`.")
    ] = None
    agents: Annotated[tuple[str, ...], Field("Client ids whose tokens stand for agents.")] = ()
    services: Annotated[
        tuple[str, ...],
        Field("Client ids whose tokens stand for services, as do all tokens that a client got in its own name."),
    ] = ()
    introspection: Annotated[
        IntrospectionSettings | None, Field("How to check tokens that are not JWTs; without it, they are refused.")
    ] = None

    console: Annotated[
        BrowserClientSettings | None, Field("How people sign in to the console there; without it, they use keys.")
    ] = None

    def problems(self) -> Iterator[ItemProblem]:
        """Check the algorithms, and what claims are mapped to."""
        if not self.algorithms:
            yield ItemProblem("algorithms", "must name at least one", f"choose from {', '.join(ALGORITHMS)}")
        for scope in (scope for given in self.scope_map.values() for scope in given):
            if not is_scope(scope):
                yield ItemProblem("scope_map", f"has {scope!r}, which is not a scope", SCOPE_HINT)
        for tenant in self.tenant_map.values():
            if not TENANT.fits(tenant):
                yield ItemProblem("tenant_map", f"has {tenant!r}, which is not {TENANT.expected}")
        if self.tenant_map and self.tenant_claim is None:
            yield ItemProblem("tenant_map", "needs `tenant_claim`, whose values it maps")


class PipeSettings(Struct, frozen=True, kw_only=True):
    """The principal of an assistant that starts `penstock mcp` on a file.

    Unless set, it is an agent of the user who starts it.
    """

    owner: Annotated[bool, Field("Whether it acts as the owner of the file, who may do everything.", "--as-owner")] = (
        False
    )
    name: Annotated[
        str | None, Field("Its name; unless set, that of the operating system's user.", format=PRINCIPAL)
    ] = None
    kind: Annotated[
        Literal["agent", "person", "service"],
        Field("Its kind; calls of an agent may have to wait for a person."),
    ] = "agent"
    scopes: Annotated[
        tuple[str, ...],
        Field(
            "Its scopes; unless set, it may run what is exposed, follow its runs, and use the operations of "
            "`server.mcp.toolset`.",
            format=SCOPE,
        ),
    ] = ()
    groups: Annotated[tuple[str, ...], Field("Its groups, for policies and approvals.", format=PRINCIPAL)] = ()


class OauthSettings(Struct, frozen=True, kw_only=True):
    """Callers that sign in at an issuer and present its access token, on every surface over HTTP."""

    issuers: Annotated[
        Mapping[str, IssuerSettings],
        Field("The issuers whose tokens are accepted, by name; none means keys only.", format=ISSUER_NAME),
    ] = {}
    scopes: Annotated[
        tuple[str, ...],
        Field(
            "The scopes that clients should request, in the issuer's terms; unless set, the scopes to run exposed "
            "workflows and follow their runs."
        ),
    ] = ()
    standing_authority: Annotated[
        timedelta,
        Field(
            "How long schedules and webhooks created with a token act with its scopes; saving them again renews the "
            "time.",
            minimum=60,
        ),
    ] = timedelta(milliseconds=limits.STANDING_AUTHORITY_MS)
