"""Why a server refused a request: the header `WWW-Authenticate` of a 401, or of a 403 that wants more scopes.

A 403 without `insufficient_scope` is an ordinary refusal, which no other token would change.

Above it: the MCP session, `protocol`. Below it: helpers of the MCP SDK.
"""

from __future__ import annotations

from typing import Final

import httpx2
from mcp.client.auth.utils import extract_field_from_www_auth

from penstock.base import limits
from penstock.runtime.upstreams.oauth.model import Challenge

__all__ = ["challenge_of", "scopes_in"]

_UNAUTHORIZED: Final = 401
_FORBIDDEN: Final = 403


def challenge_of(response: httpx2.Response) -> Challenge | None:
    """What a response demands; None if it is not a refusal that another token could change."""
    lacks_scopes = (
        response.status_code == _FORBIDDEN and extract_field_from_www_auth(response, "error") == "insufficient_scope"
    )
    if response.status_code != _UNAUTHORIZED and not lacks_scopes:
        return None
    scope = extract_field_from_www_auth(response, "scope")
    return Challenge(
        status=response.status_code,
        metadata_url=extract_field_from_www_auth(response, "resource_metadata"),
        scopes=None if scope is None else scopes_in(scope),
    )


def scopes_in(text: str) -> tuple[str, ...]:
    """The scopes of a text, as many as are taken; those that are too long are left out."""
    found = [scope for scope in text.split() if len(scope) <= limits.OAUTH_SCOPE_CHARACTERS_MAX]
    return tuple(dict.fromkeys(found[: limits.OAUTH_SCOPES_MAX]))
