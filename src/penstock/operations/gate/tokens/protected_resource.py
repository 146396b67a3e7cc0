"""This server as a protected resource: the metadata that tells clients where to sign in, and the challenges.

A challenge names the metadata and the scopes to ask for, in the words of the issuer. It is sent where signing in, or a
further scope, would help, and nowhere else: a client whose sign-in cannot help would ask again and again.

Above it: the gate, the surfaces over HTTP. Below it: nothing. Addresses come from the settings, never from a request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject
from penstock.base.scopes import EVERYTHING, scope_allows
from penstock.governance.principals import Principal

__all__ = ["BASIC_SCOPES", "METADATA_PATH", "ProtectedResource", "advertised_scopes", "unauthenticated_challenge"]

METADATA_PATH = "/.well-known/oauth-protected-resource"
BASIC_SCOPES = ("workflow:read", "workflow:run", "execution:read", "execution:write", "execution:control")
"""What a client needs to run exposed workflows and to follow its runs."""
_REALM = 'Bearer realm="penstock"'
_ScopeMap = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectedResource:
    """What clients learn about this server."""

    public_url: str
    """The address under which clients reach the server, without a slash at its end."""
    path: str
    """The path of the MCP endpoint."""
    issuers: tuple[str, ...]
    scopes: tuple[str, ...]
    """The scopes that clients should ask for, in the words of the issuers."""
    scope_maps: Mapping[str, _ScopeMap | None]
    """By the name of an issuer: the scopes that its words stand for; None if it uses ours."""

    @property
    def resource(self) -> str:
        """The identifier of this server, which tokens have as their audience."""
        return f"{self.public_url}{self.path}"

    @property
    def metadata_url(self) -> str:
        """Where the metadata is: the well-known part is inserted before the path (RFC 9728, section 3.1)."""
        return f"{self.public_url}{METADATA_PATH}{self.path}"

    def document(self) -> JsonObject:
        """Return the metadata (RFC 9728)."""
        return {
            "resource": self.resource,
            "resource_name": "Penstock",
            "authorization_servers": list(self.issuers),
            "scopes_supported": list(self.scopes),
            "bearer_methods_supported": ["header"],
        }

    def unauthenticated(self, *, was_sent: bool) -> str:
        """Return the challenge for a request without a valid credential."""
        problem = ['error="invalid_token"'] if was_sent else []
        return self._challenge([*problem, f'scope="{" ".join(self.scopes)}"'])

    def no_scope(self) -> str:
        """Return the challenge for a token without any scope that counts here."""
        return self._challenge(['error="insufficient_scope"', f'scope="{" ".join(self.scopes)}"'])

    def insufficient_scope(self, error: PenstockError, principal: Principal) -> str | None:
        """Return the challenge for a call that further scopes would allow; None if no scope of the issuer would."""
        needed = _needed_scopes(error)
        if principal.token is None or not needed:
            return None
        names = _issuer_names(needed, self.scope_maps.get(principal.token.issuer))
        return None if names is None else self._challenge(['error="insufficient_scope"', f'scope="{" ".join(names)}"'])

    def _challenge(self, members: Iterable[str]) -> str:
        return ", ".join([_REALM, *members, f'resource_metadata="{self.metadata_url}"'])


def unauthenticated_challenge(protected: ProtectedResource | None, *, was_sent: bool) -> str:
    """Return the challenge for a request without a valid credential, on every surface; `protected` is where to sign in.

    `was_sent` says whether there was a credential at all.
    """
    if protected is not None:
        return protected.unauthenticated(was_sent=was_sent)
    return f'{_REALM}, error="invalid_token"' if was_sent else _REALM


def _needed_scopes(error: PenstockError) -> tuple[str, ...]:
    """Return all scopes that a refused call needs; nothing if no scope would help."""
    found = error.details.get("scopes") if error.code == "SCOPE_REQUIRED" else None
    return tuple(str(scope) for scope in found) if isinstance(found, list) else ()


def _issuer_names(needed: Iterable[str], scope_map: _ScopeMap | None) -> tuple[str, ...] | None:
    """Return the words of an issuer that give the scopes; None if it has no word for one of them."""
    if scope_map is None:
        return tuple(needed)
    names: dict[str, None] = {}
    for scope in needed:
        # The word that gives the least: a client should not have to ask for more than it needs.
        giving = [name for name, given in scope_map.items() if scope_allows(given, scope)]
        if not giving:
            return None
        names[min(giving, key=lambda name: (*_breadth(scope_map[name]), name))] = None
    return tuple(names)


def _breadth(scopes: tuple[str, ...]) -> tuple[bool, int, int]:
    return EVERYTHING in scopes, sum(scope.endswith("*") for scope in scopes), len(scopes)


def advertised_scopes(scope_map: _ScopeMap | None) -> tuple[str, ...]:
    """Return the scopes that clients should ask for if the settings do not say, in the words of an issuer."""
    found: dict[str, None] = {}
    for scope in BASIC_SCOPES:
        found.update(dict.fromkeys(_issuer_names([scope], scope_map) or ()))
    return tuple(found)
