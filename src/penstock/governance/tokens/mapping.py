"""From the claims of a verified token to a principal, by the rules of its issuer.

A principal is an issuer and a subject: the same subject of another issuer is somebody else. A claim may be named by a
path with dots (`realm_access.roles`); a member with exactly that name counts first, because some names are addresses.
What is too large, or not of the expected type, refuses the token: leaving out a group could lift a restriction.

Above it: the gate. Below it: `rules`, `claims`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue
from penstock.base.scopes import parse_scope
from penstock.governance.principals import KEY_KINDS, KeyKind, Principal, TokenReference
from penstock.governance.tokens.rules import IssuerRules, TokenRefusal

__all__ = ["principal_from_claims", "subject_principal"]

_TENANT = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_TEXT = re.compile(r"[^\x00-\x1f\x7f]+")
_SCOPE_CLAIMS = ("scope", "scp")
# Claims in which issuers name the client that got the token.
_CLIENT_CLAIMS = ("client_id", "azp", "cid", "appid")


def subject_principal(issuer: str, subject: str) -> str:
    """Return the id of the principal that a subject of an issuer is."""
    return f"token:{issuer}:{subject}"


def principal_from_claims(rules: IssuerRules, claims: JsonObject, expires_at: int) -> Principal | TokenRefusal:
    """Return the principal that a token stands for. Its claims were checked before."""
    subject = _short_text(_claim(claims, rules.subject_claim), limits.TOKEN_SUBJECT_CHARACTERS_MAX)
    if subject is None:
        return TokenRefusal(f"the token does not name its subject (`{rules.subject_claim}`)")
    token_id = claims.get("jti")
    if token_id is not None and _short_text(token_id, limits.TOKEN_ID_CHARACTERS_MAX) is None:
        return TokenRefusal("`jti` in the token is not a short text")
    tenant, groups, kind = _tenant(rules, claims), _groups(rules, claims), _kind(rules, claims, subject)
    scopes = _scopes(rules, claims)
    for found in (tenant, groups, scopes, kind):
        if isinstance(found, TokenRefusal):
            return found
    assert isinstance(tenant, str)
    assert isinstance(groups, frozenset)
    assert isinstance(scopes, frozenset)
    assert not isinstance(kind, TokenRefusal)
    token = TokenReference(
        issuer=rules.name,
        subject=subject,
        tenant=tenant,
        expires_at=expires_at,
        token_id=token_id if isinstance(token_id, str) else None,
    )
    client = _client(claims)
    return Principal(
        id=subject_principal(rules.name, subject),
        tenant=tenant,
        kind=kind,
        scopes=scopes,
        groups=groups,
        name=_display_name(claims) or subject,
        attributes={"issuer": rules.issuer, "subject": subject, **({"client": client} if client else {})},
        credential=token.name,
        token=token,
    )


def _claim(claims: JsonObject, name: str) -> JsonValue:
    if name in claims:
        return claims[name]
    found: JsonValue = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _short_text(value: JsonValue, characters_max: int) -> str | None:
    fits = isinstance(value, str) and len(value) <= characters_max and _TEXT.fullmatch(value) is not None
    return str(value) if fits else None


def _tenant(rules: IssuerRules, claims: JsonObject) -> str | TokenRefusal:
    if rules.tenant_claim is None:
        return rules.tenant
    value = _claim(claims, rules.tenant_claim)
    if not isinstance(value, str):
        return TokenRefusal(f"the token does not name a tenant (`{rules.tenant_claim}`)")
    named = value if rules.tenant_map is None else rules.tenant_map.get(value)
    if named is None or _TENANT.fullmatch(named) is None:
        return TokenRefusal("the tenant that the token names is not one of this server")
    return named


def _groups(rules: IssuerRules, claims: JsonObject) -> frozenset[str] | TokenRefusal:
    elsewhere = claims.get("_claim_names")
    if isinstance(elsewhere, dict) and rules.groups_claim in elsewhere:
        return TokenRefusal("the subject is in so many groups that the issuer left them out of the token")
    given = _claim(claims, rules.groups_claim)
    if given is None:
        return frozenset()
    values = [given] if isinstance(given, str) else given
    if not isinstance(values, list) or len(values) > limits.TOKEN_GROUPS_MAX:
        return TokenRefusal(f"`{rules.groups_claim}` in the token is not a list of at most {limits.TOKEN_GROUPS_MAX}")
    named = [_short_text(value, limits.GROUP_NAME_CHARACTERS_MAX) for value in values]
    if any(name is None for name in named):
        return TokenRefusal(f"`{rules.groups_claim}` in the token has a value that is not the name of a group")
    texts = [name for name in named if name is not None]
    if rules.group_map is not None:
        return frozenset(rules.group_map[name] for name in texts if name in rules.group_map)
    return frozenset(f"{rules.name}.{name}" for name in texts)


def _scopes(rules: IssuerRules, claims: JsonObject) -> frozenset[str] | TokenRefusal:
    """Return the scopes of a token. Without a map, wildcards are ignored: only an operator gives those."""
    if rules.scopes_claim is not None:
        name, given = rules.scopes_claim, _claim(claims, rules.scopes_claim)
    else:
        name = next((name for name in _SCOPE_CLAIMS if name in claims), _SCOPE_CLAIMS[0])
        given = claims.get(name)
    if given is None:
        return frozenset()
    values = given.split(" ") if isinstance(given, str) else given
    if not isinstance(values, list) or len(values) > limits.TOKEN_SCOPES_MAX:
        return TokenRefusal(f"`{name}` in the token is not a list of at most {limits.TOKEN_SCOPES_MAX} scopes")
    texts = [value for value in values if isinstance(value, str) and value]
    if rules.scope_map is not None:
        return frozenset(scope for text in texts for scope in rules.scope_map.get(text, ()))
    return frozenset(_plain_scopes(texts))


def _plain_scopes(texts: Iterable[str]) -> Iterable[str]:
    for text in texts:
        scope = parse_scope(text)
        if scope is not None and not scope.is_wildcard:
            yield text


def _client(claims: JsonObject) -> str | None:
    for name in _CLIENT_CLAIMS:
        found = _short_text(claims.get(name), limits.TOKEN_SUBJECT_CHARACTERS_MAX)
        if found is not None:
            return found
    return None


def _kind(rules: IssuerRules, claims: JsonObject, subject: str) -> KeyKind | TokenRefusal:
    """Return the kind of the subject. A user who signed in is a person; a client that signed in for itself never is."""
    if rules.kind_claim is not None and (said := _claim(claims, rules.kind_claim)) is not None:
        named = next((kind for kind in KEY_KINDS if kind == said), None)
        return named or TokenRefusal(f"`{rules.kind_claim}` in the token is not one of {', '.join(KEY_KINDS)}")
    client = _client(claims)
    if client in rules.agent_clients:
        return "agent"
    own = client is not None and (
        subject in (client, f"{client}@clients") or _claim(claims, "preferred_username") == f"service-account-{client}"
    )
    by_itself = own or claims.get("gty") == "client-credentials" or claims.get("idtyp") == "app"
    return "service" if client in rules.service_clients or by_itself else "person"


def _display_name(claims: JsonObject) -> str | None:
    for name in ("preferred_username", "email", "name"):
        found = _short_text(claims.get(name), 100)
        if found is not None:
            return found
    return None
