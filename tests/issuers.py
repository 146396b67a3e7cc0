"""An issuer of access tokens for tests: signs what it is told to, and serves its keys without a network."""

from __future__ import annotations

import base64
import hmac
import json
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from typing import Any

from joserfc.jwk import ECKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

from penstock.governance.tokens.rules import IssuerRules
from penstock.operations.gate.tokens.choices import TokenChoices, TrustedIssuer
from penstock.operations.gate.tokens.protected_resource import ProtectedResource, advertised_scopes
from penstock.runtime.ports.issuers import (
    Fetched,
    IntrospectionRequest,
    IssuerResponse,
    NotFetched,
    TokenRequest,
    TokenResponse,
)
from penstock.runtime.system import SystemClock

PUBLIC_URL = "https://flows.example"
AUDIENCE = f"{PUBLIC_URL}/mcp"
LOGOUT_EVENT = "http://schemas.openid.net/event/backchannel-logout"
AnyKey = RSAKey | ECKey | OKPKey


class _AnyAlgorithm(JWSRegistry):
    max_header_length = max_payload_length = max_signature_length = 1_000_000

    def get_alg(self, name: str) -> Any:
        return self.algorithms[name]


_NUMBERS = count(1)
_REGISTRY = _AnyAlgorithm(strict_check_header=False)


@cache
def signing_key(algorithm: str, name: str) -> AnyKey:
    """A key pair for an algorithm; the same one for the same name."""
    match algorithm:
        case "ES256":
            return ECKey.generate_key("P-256")
        case "EdDSA":
            return OKPKey.generate_key("Ed25519")
        case _:
            return RSAKey.generate_key(2048)


def base64url(data: bytes) -> str:
    """Base64url as tokens have it."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def signed(header: dict[str, Any], claims: dict[str, Any] | bytes, key: Any) -> str:
    """A token with exactly this header and these claims, signed by whatever key."""
    payload = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
    signing_input = f"{base64url(json.dumps(header).encode())}.{base64url(payload)}"
    if isinstance(key, bytes):  # what the library would not do: use a public key as a shared secret
        signature = hmac.digest(key, signing_input.encode(), "sha256")
    else:
        signature = _REGISTRY.get_alg(header["alg"]).sign(signing_input.encode(), key)
    return f"{signing_input}.{base64url(signature)}"


@dataclass
class Issuer:
    """An issuer, with one key for each algorithm unless `algorithms` says otherwise."""

    name: str = "company"
    url: str = "https://login.example/company"
    algorithms: tuple[str, ...] = ("RS256", "ES256", "EdDSA")
    keys: dict[str, AnyKey] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for algorithm in self.algorithms:
            self.keys[f"{self.name}-{algorithm}"] = signing_key(algorithm, f"{self.url} {algorithm}")

    def claims(self, **changes: Any) -> dict[str, Any]:
        """The claims of an ordinary token; a claim that is changed to None is left out."""
        now = SystemClock().now_ms() // 1000
        plain = {
            "iss": self.url,
            "sub": "ada",
            "aud": AUDIENCE,
            "iat": now,
            "exp": now + 300,
            "jti": f"jti-{next(_NUMBERS)}",
            "client_id": "desktop",
            "scope": "workflow:read workflow:run execution:read execution:write",
        }
        return {name: value for name, value in {**plain, **changes}.items() if value is not None}

    def token(self, *, algorithm: str = "RS256", header: dict[str, Any] | None = None, **claims: Any) -> str:
        """An access token."""
        key_id = f"{self.name}-{algorithm}"
        members = {"alg": algorithm, "typ": "at+jwt", "kid": key_id, **(header or {})}
        used = {name: value for name, value in members.items() if value is not None}
        return signed(used, self.claims(**claims), self.keys.get(key_id) or signing_key(algorithm, key_id))

    def logout_token(self, *, header: dict[str, Any] | None = None, key: Any = None, **claims: Any) -> str:
        """A token that says that somebody has signed out; claims that are None are left out."""
        event: dict[str, Any] = {LOGOUT_EVENT: {}}
        said = self.claims(**{"client_id": None, "scope": None, "events": event, **claims})
        members = {"alg": "RS256", "typ": "logout+jwt", "kid": f"{self.name}-RS256", **(header or {})}
        used = {name: value for name, value in members.items() if value is not None}
        return signed(used, said, key or self.keys[f"{self.name}-RS256"])

    def key_set(self) -> dict[str, Any]:
        """The public keys."""
        found = []
        for key_id, key in self.keys.items():
            found.append({**key.as_dict(private=False), "kid": key_id, "use": "sig"})
        return {"keys": found}

    def metadata(self) -> dict[str, Any]:
        """What the issuer says about itself."""
        return {"issuer": self.url, "jwks_uri": f"{self.url}/jwks"}

    def trusted(self, **rules: Any) -> TrustedIssuer:
        """The issuer as a server trusts it."""
        kept = {name: rules.pop(name) for name in ("jwks_url", "introspection", "browser") if name in rules}
        chosen = {"name": self.name, "issuer": self.url, "audiences": frozenset({AUDIENCE}), **rules}
        return TrustedIssuer(rules=IssuerRules(**chosen), **kept)


@dataclass
class IssuerDirectory:
    """An `IssuerClient` that knows some issuers, and counts what it is asked."""

    issuers: list[Issuer]
    asked: list[str] = field(default_factory=list)
    is_down: bool = False
    tokens: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What is said about opaque tokens."""

    async def fetch(self, url: str) -> IssuerResponse:
        self.asked.append(url)
        if self.is_down:
            return NotFetched("nobody is there")
        for issuer in self.issuers:
            if url == f"{issuer.url}/jwks":
                return Fetched(json.dumps(issuer.key_set()).encode())
            if url == f"{issuer.url}/.well-known/openid-configuration":
                return Fetched(json.dumps(issuer.metadata()).encode())
        return NotFetched("the status of its answer is 404")

    async def introspect(self, request: IntrospectionRequest) -> IssuerResponse:
        self.asked.append(request.url)
        if self.is_down:
            return NotFetched("nobody is there")
        return Fetched(json.dumps(self.tokens.get(request.token, {"active": False})).encode())

    async def exchange(self, request: TokenRequest) -> TokenResponse:
        return NotFetched("nobody signs in here")

    async def revoke(self, request: TokenRequest) -> IssuerResponse:
        return NotFetched("nobody signs in here")

    async def close(self) -> None:
        pass

    def choices(self, **rules: Any) -> TokenChoices:
        """The choices of a server that trusts all of them."""
        trusted = tuple(issuer.trusted(**rules) for issuer in self.issuers)
        maps = {item.rules.name: item.rules.scope_map for item in trusted}
        protected = ProtectedResource(
            public_url=PUBLIC_URL,
            path="/mcp",
            issuers=tuple(issuer.url for issuer in self.issuers),
            scopes=advertised_scopes(next(iter(maps.values()))),
            scope_maps=maps,
        )
        return TokenChoices(issuers=trusted, protected=protected, new_client=lambda: self)


def hostile_tokens(issuer: Issuer) -> dict[str, str]:
    """Tokens that must be refused, by what is wrong with them. Their claims are otherwise those of a good token."""
    good, now = issuer.token(), SystemClock().now_ms() // 1000
    public = issuer.keys[f"{issuer.name}-RS256"].as_pem(private=False)
    head, body, signature = good.split(".")
    claims = issuer.claims()

    def header(**changes: Any) -> str:
        return issuer.token(header=changes)

    none = base64url(json.dumps({"alg": "none", "typ": "at+jwt"}).encode())
    stranger = Issuer(name=issuer.name, url="https://evil.example")
    impostor = signing_key("RS256", "impostor")
    rs_header = {"alg": "RS256", "typ": "at+jwt", "kid": f"{issuer.name}-RS256"}
    return {
        "none": f"{none}.{body}.",
        "none with a signature": f"{none}.{body}.{signature}",
        "HS256 with the public key": signed(
            {"alg": "HS256", "typ": "at+jwt", "kid": f"{issuer.name}-RS256"}, claims, public
        ),
        "signed by somebody else": signed(rs_header, claims, impostor),
        "RS512": signed({**rs_header, "alg": "RS512"}, claims, issuer.keys[f"{issuer.name}-RS256"]),
        "padded": f"{head}.{body}.{signature}=",
        "padded header": f"{head}=.{body}.{signature}",
        "blank at the end": f"{good[:-1]} ",
        "other bits at the end": _with_stray_bits(good),
        "crit": header(crit=["exp"]),
        "b64": header(b64=False, crit=["b64"]),
        "jku": header(jku="https://evil.example/jwks"),
        "x5u": header(x5u="https://evil.example/cert"),
        "jwk": header(jwk=impostor.as_dict(private=False)),
        "x5c": header(x5c=["MIIB"]),
        "unknown key": header(kid="nobody"),
        "key id that is no text": header(kid=7),
        "wrong type": header(typ="logout+jwt"),
        "ID token": issuer.token(header={"typ": "JWT"}, nonce="n-1", at_hash="x"),
        "ID token by claim": issuer.token(header={"typ": "JWT"}, typ="ID"),
        "expired": issuer.token(exp=now - 61),
        "no expiry": issuer.token(exp=None),
        "expiry as text": issuer.token(exp=str(now + 300)),
        "not yet valid": issuer.token(nbf=now + 120),
        "issued in the future": issuer.token(iat=now + 120),
        "other audience": issuer.token(aud="https://other.example/mcp"),
        "audience that only begins like ours": issuer.token(aud=f"{AUDIENCE}/other"),
        "no audience": issuer.token(aud=None),
        "other issuer": stranger.token(),
        "issuer with a slash": issuer.token(iss=f"{issuer.url}/"),
        "no subject": issuer.token(sub=None),
        "empty subject": issuer.token(sub=""),
        "subject with a line break": issuer.token(sub="ada\nroot"),
        "bound to a key": issuer.token(cnf={"jkt": "x"}),
        "repeated claim": signed(
            rs_header,
            json.dumps(claims)[:-1].encode() + b', "sub": "root"}',
            issuer.keys[f"{issuer.name}-RS256"],
        ),
        "huge": issuer.token(groups=["g" * 90 for _ in range(300)]),
        "claims are a list": signed(rs_header, b"[]", issuer.keys[f"{issuer.name}-RS256"]),
        "nested too deeply": signed(rs_header, b"[" * 5_000, issuer.keys[f"{issuer.name}-RS256"]),
        "five parts": f"{good}.x.y",
    }


def _with_stray_bits(token: str) -> str:
    """The same bytes, written in another way: the last character of base64 has bits that mean nothing."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    assert len(token.rpartition(".")[2]) % 4, "the signature has no bits to spare"
    return token[:-1] + alphabet[alphabet.index(token[-1]) ^ 1]


__all__ = [
    "AUDIENCE",
    "PUBLIC_URL",
    "Issuer",
    "IssuerDirectory",
    "base64url",
    "hostile_tokens",
    "signed",
    "signing_key",
]
