"""What servers publish about themselves: the metadata of a protected resource, and of an authorization server.

Issuers are compared as the texts that they are (RFC 8414). Endpoints have to be addresses to which secrets may be sent.

Above it: `protocol`. Below it: nothing. It does no I/O.
"""

from __future__ import annotations

from typing import Any, TypeGuard

import msgspec

from penstock.base import limits
from penstock.runtime.executors.mcp.oauth.challenges import scopes_in
from penstock.runtime.executors.mcp.oauth.guarded_http import is_safe_address
from penstock.runtime.upstreams.oauth.model import AuthorizationServer, Tokens

__all__ = ["ResourceDocument", "read_authorization_server", "read_resource_document", "read_tokens"]

_SHA256 = "S256"
_LISTED_MAX = 100
# More than thirty years: whatever says more never expires.
_SECONDS_MAX = 1_000_000_000


class ResourceDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata of a protected resource (RFC 9728), as far as they are needed."""

    resource: str
    authorization_servers: tuple[str, ...]
    scopes: tuple[str, ...] | None = None


def read_resource_document(body: bytes) -> ResourceDocument | None:
    """Read the metadata of a protected resource; None if the document is something else."""
    found = _object(body)
    resource, servers = found.get("resource"), _texts(found.get("authorization_servers"))
    if not isinstance(resource, str) or not servers:
        return None
    return ResourceDocument(
        resource=resource, authorization_servers=servers, scopes=_scopes(found.get("scopes_supported"))
    )


def read_authorization_server(body: bytes) -> AuthorizationServer | None:
    """Read the metadata of an authorization server (RFC 8414); None if the document is something else."""
    found = _object(body)
    issuer, token_endpoint = found.get("issuer"), _address(found.get("token_endpoint"))
    if not isinstance(issuer, str) or token_endpoint is None:
        return None
    return AuthorizationServer(
        issuer=issuer,
        token_endpoint=token_endpoint,
        authorization_endpoint=_address(found.get("authorization_endpoint")),
        registration_endpoint=_address(found.get("registration_endpoint")),
        revocation_endpoint=_address(found.get("revocation_endpoint")),
        methods=_texts(found.get("token_endpoint_auth_methods_supported")),
        signing_algorithms=_texts(found.get("token_endpoint_auth_signing_alg_values_supported")),
        scopes=_scopes(found.get("scopes_supported")),
        takes_metadata_urls=found.get("client_id_metadata_document_supported") is True,
        sends_issuer=found.get("authorization_response_iss_parameter_supported") is True,
        has_pkce=_SHA256 in (_texts(found.get("code_challenge_methods_supported")) or ()),
    )


def read_tokens(body: bytes) -> Tokens | None:
    """Read the answer of a token endpoint; None if it gave no bearer token that can be used."""
    found = _object(body)
    access, refresh = found.get("access_token"), found.get("refresh_token")
    scope = found.get("scope")
    if not _is_token(access) or str(found.get("token_type", "Bearer")).lower() != "bearer":
        return None
    return Tokens(
        access_token=access,
        refresh_token=refresh if _is_token(refresh) else None,
        expires_in_seconds=_seconds(found.get("expires_in")),
        scopes=scopes_in(scope) if isinstance(scope, str) else None,
    )


def _seconds(value: Any) -> int | None:
    """A duration; some servers send it as a text."""
    try:
        seconds = int(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else None
    except (ValueError, OverflowError):
        return None
    return None if seconds is None else min(max(seconds, 0), _SECONDS_MAX)


def _is_token(value: Any) -> TypeGuard[str]:
    # A header cannot carry anything else.
    return (
        isinstance(value, str)
        and 0 < len(value) <= limits.OAUTH_TOKEN_CHARACTERS_MAX
        and all("!" <= character <= "~" for character in value)
    )


def _object(body: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _address(value: Any) -> str | None:
    return value if isinstance(value, str) and is_safe_address(value) else None


def _texts(value: Any) -> tuple[str, ...] | None:
    if not isinstance(value, list):
        return None
    return tuple(item for item in value if isinstance(item, str))[:_LISTED_MAX]


def _scopes(value: Any) -> tuple[str, ...] | None:
    texts = _texts(value)
    return None if texts is None else scopes_in(" ".join(texts))
