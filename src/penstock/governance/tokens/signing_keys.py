"""The keys with which an issuer signs, and the verification of a signature.

Only public keys of key pairs are taken from a key set, each for the algorithms that fit its type. So a token cannot be
verified with a public key as if that were a shared secret, whatever its header says.

Above it: the gate. Below it: joserfc, `parsing`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from joserfc import jws
from joserfc.errors import JoseError, UnsupportedAlgorithmError
from joserfc.jwa import JWSAlgModel
from joserfc.jwk import ECKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry
from joserfc.util import base64_to_int

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue
from penstock.governance.tokens.parsing import ParsedToken
from penstock.governance.tokens.rules import ALGORITHMS

__all__ = ["SigningKeys", "UnreadableKeys", "VerificationKey", "read_signing_keys", "signature_is_valid"]

_RSA_BITS_MIN = 2_048
_ALGORITHMS_OF = {"RSA": ("RS256", "PS256"), "EC": ("ES256",), "OKP": ("EdDSA",)}
_CURVE_OF = {"EC": "P-256", "OKP": "Ed25519"}


class _Registry(JWSRegistry):
    """Knows the algorithm of the key at hand, so that no header can talk the verifier into another.

    Its own choice of algorithms warns about the name EdDSA, which issuers use and which means Ed25519 here.
    """

    max_header_length = limits.TOKEN_HEADER_CHARACTERS_MAX
    max_payload_length = limits.TOKEN_CHARACTERS_MAX
    max_signature_length = limits.TOKEN_SIGNATURE_CHARACTERS_MAX

    def get_alg(self, name: str) -> JWSAlgModel:
        if name not in (self.allowed or ()):
            raise UnsupportedAlgorithmError(f"{name} is not the algorithm of this key")
        return self.algorithms[name]


@dataclass(frozen=True, slots=True)
class UnreadableKeys:
    """A document that is not a key set with usable keys, and why."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationKey:
    """A public key, its id and the algorithms that it may be used with."""

    key_id: str | None
    algorithms: frozenset[str]
    key: RSAKey | ECKey | OKPKey


@dataclass(frozen=True, slots=True)
class SigningKeys:
    """The keys of an issuer."""

    keys: tuple[VerificationKey, ...]

    def find(self, token: ParsedToken) -> VerificationKey | None:
        """Return the key that a token names; without a name, the only key that fits its algorithm."""
        fitting = [key for key in self.keys if token.algorithm in key.algorithms]
        if token.key_id is not None:
            fitting = [key for key in fitting if key.key_id == token.key_id]
        return fitting[0] if len(fitting) == 1 else None


def read_signing_keys(document: bytes) -> SigningKeys | UnreadableKeys:
    """Read a key set (RFC 7517). Keys that are of no use here are left out."""
    try:
        found = json.loads(document)
    except (ValueError, RecursionError):
        return UnreadableKeys("it is not JSON")
    listed = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(listed, list):
        return UnreadableKeys("it is not a JSON object with a list `keys`")
    if len(listed) > limits.ISSUER_KEYS_MAX:
        return UnreadableKeys(f"it has more than {limits.ISSUER_KEYS_MAX} keys")
    keys = tuple(key for item in listed if (key := _key(item)) is not None)
    if not keys:
        return UnreadableKeys(f"it has no public key for {', '.join(ALGORITHMS)}")
    return SigningKeys(keys)


def _key(item: JsonValue) -> VerificationKey | None:
    """Return a public key for signatures; None for any other key."""
    if not isinstance(item, dict):
        return None
    kind, use, operations = item.get("kty"), item.get("use", "sig"), item.get("key_ops")
    usable = isinstance(kind, str) and kind in _ALGORITHMS_OF and use == "sig"
    if not usable or (isinstance(operations, list) and "verify" not in operations):
        return None
    assert isinstance(kind, str)
    curve = _CURVE_OF.get(kind)
    if curve is not None and item.get("crv") != curve:
        return None
    algorithms = frozenset(_ALGORITHMS_OF[kind])
    if "alg" in item:
        algorithms &= {str(item["alg"])}
    key_id = item.get("kid")
    key = _imported(kind, item)
    if key is None or not algorithms or not (key_id is None or isinstance(key_id, str)):
        return None
    return VerificationKey(key_id=key_id, algorithms=algorithms, key=key)


def _imported(kind: str, item: JsonObject) -> RSAKey | ECKey | OKPKey | None:
    public: dict[str, str | list[str]] = {
        name: value for name in ("kty", "n", "e", "crv", "x", "y") if isinstance(value := item.get(name), str)
    }
    try:
        match kind:
            case "RSA":
                # Looked at first: the library warns about a small key, and takes it.
                return (
                    RSAKey.import_key(public) if base64_to_int(str(public["n"])).bit_length() >= _RSA_BITS_MIN else None
                )
            case "EC":
                return ECKey.import_key(public)
            case _:
                return OKPKey.import_key(public)
    except (JoseError, KeyError, ValueError, TypeError):
        return None


def signature_is_valid(token: ParsedToken, key: VerificationKey) -> bool:
    """Whether the token was signed with this key. The algorithm must be one that fits the key."""
    if token.algorithm not in key.algorithms:
        return False
    registry = _Registry(algorithms=[token.algorithm], strict_check_header=False)
    try:
        jws.deserialize_compact(token.text, key.key, algorithms=[token.algorithm], registry=registry)
    except (JoseError, ValueError, TypeError):
        return False
    return True
