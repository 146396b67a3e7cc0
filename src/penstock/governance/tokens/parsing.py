"""A token as text, taken apart before anything of it is believed.

A token has exactly one spelling: base64url without padding, without stray bits, objects without a repeated member.
Otherwise one token could have several texts, and two programs could read different things from one text. Header members
that would let a token choose how it is verified are refused, whatever their values.

Above it: `signing_keys`, `claims`, the gate. Below it: `rules`.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Set
from dataclasses import dataclass
from typing import Any, Never

from penstock.base import limits
from penstock.base.json import JsonObject
from penstock.governance.tokens.rules import TokenRefusal

__all__ = ["ParsedToken", "check_header", "looks_like_jwt", "parse_token"]

_PARTS = 3
_BASE64URL = re.compile(r"[A-Za-z0-9_-]+")
# Members by which a token would bring its own key, tell where to fetch one, or change what is signed.
_REFUSED_MEMBERS = ("crit", "b64", "jku", "jwk", "x5u", "x5c", "zip")
_TYPES = frozenset({"jwt", "at+jwt", "application/at+jwt"})
_KEY_ID_CHARACTERS_MAX = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedToken:
    """A token whose signature has not been verified. Its repr leaves the token out."""

    text: str
    header: JsonObject
    claims: JsonObject

    @property
    def algorithm(self) -> str:
        """The algorithm that the header names; it counts only if the rules of the issuer list it."""
        return str(self.header.get("alg"))

    @property
    def key_id(self) -> str | None:
        """The key that the header names."""
        found = self.header.get("kid")
        return found if isinstance(found, str) else None

    @property
    def issuer(self) -> str | None:
        """The issuer that the token names."""
        found = self.claims.get("iss")
        return found if isinstance(found, str) else None

    @property
    def is_typed(self) -> bool:
        """Whether the header says that this is an access token (RFC 9068)."""
        return str(self.header.get("typ", "")).lower() in ("at+jwt", "application/at+jwt")

    def __repr__(self) -> str:
        return f"ParsedToken(issuer={self.issuer!r}, key_id={self.key_id!r})"


def looks_like_jwt(text: str) -> bool:
    """Whether a text has the outline of a signed token: three parts with dots between them."""
    return text.count(".") == _PARTS - 1


def parse_token(text: str) -> ParsedToken | TokenRefusal:
    """Take a token apart; refuse any text that is not the one spelling of a signed token."""
    if len(text) > limits.TOKEN_CHARACTERS_MAX:
        return TokenRefusal(f"the token is longer than {limits.TOKEN_CHARACTERS_MAX} characters")
    parts = text.split(".")
    if len(parts) != _PARTS:
        return TokenRefusal("the token is not a signed JWT with three parts")
    if len(parts[0]) > limits.TOKEN_HEADER_CHARACTERS_MAX or len(parts[2]) > limits.TOKEN_SIGNATURE_CHARACTERS_MAX:
        return TokenRefusal("the header or the signature of the token is too long")
    decoded = [_decoded(part) for part in parts]
    if any(part is None for part in decoded):
        return TokenRefusal("the token is not base64url as JWTs are written, without padding")
    header, claims = (_object(part or b"") for part in decoded[:2])
    if header is None or claims is None:
        return TokenRefusal("the header and the claims of the token must be JSON objects without repeated members")
    return ParsedToken(text=text, header=header, claims=claims)


def _decoded(part: str) -> bytes | None:
    """Return the bytes of a part; None if it is empty or could be written in another way."""
    if _BASE64URL.fullmatch(part) is None or len(part) % 4 == 1:
        return None
    found = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    return found if base64.urlsafe_b64encode(found).decode("ascii").rstrip("=") == part else None


def _object(text: bytes) -> JsonObject | None:
    try:
        found = json.loads(text.decode("utf-8"), object_pairs_hook=_unrepeated, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _unrepeated(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(members)
    if len(found) != len(members):
        raise ValueError("a member is repeated")
    return found


def _refuse_constant(name: str) -> Never:
    raise ValueError(f"{name} is not JSON")


def check_header(header: JsonObject, algorithms: Set[str], types: Set[str] = _TYPES) -> TokenRefusal | None:
    """Return why a header is refused; None if the signature may be looked at. The algorithms are the issuer's.

    `types` are what the token may be called; those of access tokens unless another kind of token is expected.
    """
    for name in _REFUSED_MEMBERS:
        if name in header:
            return TokenRefusal(f"the header of the token has `{name}`, which is not accepted")
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in algorithms:
        return TokenRefusal("the token is not signed with an algorithm that this server accepts from its issuer")
    kind = header.get("typ", "JWT")
    if not isinstance(kind, str) or kind.lower() not in types:
        if types is not _TYPES:
            return TokenRefusal("the token has an unexpected type (`typ`)")
        return TokenRefusal("the token is of another type than an access token (`typ` must be at+jwt or JWT)")
    if "cty" in header:
        return TokenRefusal("the token contains another token")
    key_id = header.get("kid", "")
    if not isinstance(key_id, str) or len(key_id) > _KEY_ID_CHARACTERS_MAX:
        return TokenRefusal("the header of the token does not name its key with a short text")
    return None
