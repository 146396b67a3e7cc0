"""Identity from the settings: the issuers whose tokens the gate accepts, and what clients learn about them.

Above it: `gate`, `serving.server`, `penstock mcp`. Below it: the settings, the adapter that asks issuers.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.app.executors.secret_sources import resolve_secret
from penstock.app.settings.identity import IssuerSettings
from penstock.app.settings.model import Settings
from penstock.base.lazy_import import lazy_import
from penstock.governance.tokens.rules import IssuerRules, without_slash
from penstock.operations.gate.tokens.choices import BrowserClient, TokenChoices, TrustedIssuer
from penstock.operations.gate.tokens.introspection import Introspection
from penstock.operations.gate.tokens.protected_resource import ProtectedResource, advertised_scopes
from penstock.runtime.ports.issuers import IssuerClient

if TYPE_CHECKING:
    from penstock.runtime.executors.http import issuer_client
else:
    issuer_client = lazy_import("penstock.runtime.executors.http.issuer_client")

__all__ = ["token_choices"]


def token_choices(settings: Settings) -> TokenChoices | None:
    """The choices of the settings; None if no issuer is configured, and keys are the only credentials."""
    oauth, server = settings.auth.oauth, settings.server
    if not oauth.issuers or server.public_url is None:
        return None
    public_url = without_slash(server.public_url)
    maps = {name: dict(issuer.scope_map) or None for name, issuer in oauth.issuers.items()}
    protected = ProtectedResource(
        public_url=public_url,
        path=server.mcp.path.rstrip("/"),
        issuers=tuple(issuer.issuer for issuer in oauth.issuers.values()),
        scopes=oauth.scopes or advertised_scopes(next(iter(maps.values()))),
        scope_maps=maps,
    )
    return TokenChoices(
        issuers=tuple(_trusted(name, issuer, protected) for name, issuer in oauth.issuers.items()),
        protected=protected,
        new_client=_new_client,
    )


def _new_client() -> IssuerClient:
    return issuer_client.HttpIssuerClient()


def _trusted(name: str, issuer: IssuerSettings, protected: ProtectedResource) -> TrustedIssuer:
    rules = IssuerRules(
        name=name,
        issuer=issuer.issuer,
        audiences=frozenset(without_slash(item) for item in issuer.audience or (protected.resource,)),
        algorithms=frozenset(issuer.algorithms),
        subject_claim=issuer.subject_claim,
        tenant=issuer.tenant,
        tenant_claim=issuer.tenant_claim,
        tenant_map=dict(issuer.tenant_map) or None,
        groups_claim=issuer.groups_claim,
        group_map=dict(issuer.group_map) or None,
        scopes_claim=issuer.scopes_claim,
        scope_map=dict(issuer.scope_map) or None,
        kind_claim=issuer.kind_claim,
        agent_clients=frozenset(issuer.agents),
        service_clients=frozenset(issuer.services),
    )
    asked = issuer.introspection
    introspection = None
    if asked is not None:
        secret = partial(resolve_secret, asked.client_secret)
        introspection = Introspection(url=asked.url, client_id=asked.client_id, client_secret=secret)
    return TrustedIssuer(
        rules=rules,
        jwks_url=issuer.jwks_url,
        introspection=introspection,
        browser=_browser_client(issuer, rules, protected),
    )


def _browser_client(issuer: IssuerSettings, rules: IssuerRules, protected: ProtectedResource) -> BrowserClient | None:
    chosen = issuer.console
    if chosen is None:
        return None
    reference = chosen.client_secret
    audiences = rules.audiences
    return BrowserClient(
        client_id=chosen.client_id,
        client_secret=None if reference is None else partial(resolve_secret, reference),
        redirect_uri=f"{protected.public_url}/console/sign-in/callback",
        signed_out_uri=f"{protected.public_url}/console/sign-in",
        scopes=chosen.scopes or protected.scopes,
        resource=protected.resource if protected.resource in audiences else sorted(audiences)[0],
        takes_logouts=chosen.back_channel_logout,
        label=chosen.label,
    )
