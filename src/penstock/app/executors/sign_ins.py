"""Signing in to other MCP servers, from the settings: who we are there, and where our secrets are.

Above it: `configured`. Below it: `runtime.upstreams.oauth`; the requests are those of the MCP executor, which is loaded
when first needed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from penstock.app.executors.secret_sources import resolve_secret
from penstock.app.settings.model import Settings
from penstock.app.settings.named import McpServerSettings
from penstock.app.settings.secrets import SecretReference
from penstock.app.settings.upstream_auth import OAuthSettings
from penstock.base.lazy_import import lazy_import
from penstock.runtime.upstreams.oauth.model import OAuthServer
from penstock.runtime.upstreams.oauth.sign_ins import UpstreamSignIns

if TYPE_CHECKING:
    from penstock.runtime.executors.mcp.oauth import protocol
else:
    protocol = lazy_import("penstock.runtime.executors.mcp.oauth.protocol")

__all__ = ["upstream_sign_ins"]


def upstream_sign_ins(settings: Settings) -> UpstreamSignIns:
    """The servers of the settings that want OAuth."""
    reach = settings.http
    return UpstreamSignIns(
        servers={
            name: _oauth_server(name, server, server.auth)
            for name, server in settings.mcp_servers.items()
            if server.auth is not None and not server.disabled
        },
        make_protocol=lambda: protocol.HttpOAuth(allow_private=reach.allow_private, allow_hosts=reach.allow_hosts),
    )


def _oauth_server(name: str, server: McpServerSettings, auth: OAuthSettings) -> OAuthServer:
    return OAuthServer(
        name=name,
        url=server.url or "",
        grant=auth.grant,
        client_id=auth.client_id,
        client_metadata_url=auth.client_metadata_url,
        client_secret=_reader(auth.client_secret),
        private_key=_reader(auth.private_key),
        issuer=auth.issuer,
        scopes=auth.scopes,
    )


def _reader(reference: SecretReference | None) -> Callable[[], str] | None:
    return None if reference is None else partial(resolve_secret, reference)
