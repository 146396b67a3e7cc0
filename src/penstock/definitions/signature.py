"""Signatures of definitions: EdDSA over the canonical JSON, carried as a compact JWS inside the document.

The published format keeps the signature in `document.signature`. A native document has no `document` block and keeps it
in `signature` at the top. The caller decides which keys are trusted and whether unsigned definitions are accepted. Keys
are Ed25519, passed as base64url of their SPKI encoding.
"""

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_public_key,
)
from joserfc import jws
from joserfc.errors import JoseError, UnsupportedAlgorithmError
from joserfc.jwa import JWSAlgModel
from joserfc.jwk import OKPKey

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.canonical import canonical_json, signature_of, without_signature

__all__ = [
    "SignatureRefused",
    "SigningMode",
    "Unsigned",
    "Verified",
    "fingerprint",
    "is_public_key",
    "public_key_spki",
    "sign_definition",
    "verify_signature",
]

ALGORITHM = "EdDSA"


class SigningMode(StrEnum):
    """What happens to definitions without a signature; a bad signature is refused in both modes."""

    OPTIONAL = "optional"
    REQUIRE = "require"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """The signature is good and was made with the trusted key `key_id`."""

    key_id: str


@dataclass(frozen=True, slots=True)
class Unsigned:
    """There is no signature, and the mode does not require one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignatureRefused:
    """The definition must not be used; `code` gives the reason for programs, `message` for people."""

    code: str
    message: str


class _EdDsaRegistry(jws.JWSRegistry):
    """Knows one algorithm, so that no header can talk the verifier into another.

    The library warns about the name EdDSA because newer documents say Ed25519. The published format fixes the name, and
    the keys here are always Ed25519. The library's default payload limit is smaller than the largest definition.
    """

    max_payload_length = limits.DOCUMENT_BYTES_MAX * 2

    def get_alg(self, name: str) -> JWSAlgModel:
        if name != ALGORITHM:
            raise UnsupportedAlgorithmError(f"only {ALGORITHM} signatures are accepted")
        return self.algorithms[ALGORITHM]


REGISTRY = _EdDsaRegistry()


def sign_definition(document: JsonObject, *, key_id: str, private_key: Ed25519PrivateKey) -> JsonObject:
    """Return a copy of the document signed with `private_key`; an existing signature is replaced."""
    content = without_signature(document)
    # The library takes keys as text or raw numbers, not as objects of the cryptography package.
    key = OKPKey.import_key(private_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    header = {"alg": ALGORITHM, "kid": key_id}
    token = jws.serialize_compact(header, canonical_json(content), key, registry=REGISTRY)
    signature: JsonObject = {"alg": ALGORITHM, "value": token, "keyId": key_id}
    block = content.get("document")
    if isinstance(block, dict):
        return {**content, "document": {**block, "signature": signature}}
    return {**content, "signature": signature}


def public_key_spki(private_key: Ed25519PrivateKey) -> str:
    """Return the public half of a key as base64url of its SPKI encoding, without padding."""
    spki = private_key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return base64.urlsafe_b64encode(spki).rstrip(b"=").decode("ascii")


def is_public_key(spki: str) -> bool:
    """Whether a text is a public key that signatures can be checked with."""
    return _public_key(spki) is not None


def fingerprint(spki: str) -> str:
    """Return a hex digest that identifies a public key."""
    return hashlib.sha256(spki.encode("ascii")).hexdigest()


def verify_signature(
    document: JsonObject, *, mode: SigningMode, public_keys: Mapping[str, str]
) -> Verified | Unsigned | SignatureRefused:
    """Check the signature of a document against the trusted keys (key id to SPKI in base64url)."""
    signature = signature_of(document)
    if signature is None:
        if mode is SigningMode.OPTIONAL:
            return Unsigned()
        return SignatureRefused(
            code="SIGNATURE_REQUIRED",
            message="the definition is not signed, and only signed definitions are accepted here",
        )
    if not isinstance(signature, dict):
        return _malformed("`signature` must be an object with `alg`, `value` and `keyId`")
    token = signature.get("value")
    if signature.get("alg") != ALGORITHM or not isinstance(token, str):
        return _malformed(f"`signature.alg` must be {ALGORITHM} and `signature.value` a compact JWS")
    return _verify_token(document, token, signature.get("keyId"), public_keys)


def _verify_token(
    document: JsonObject, token: str, named_key_id: JsonValue, public_keys: Mapping[str, str]
) -> Verified | SignatureRefused:
    try:
        extracted = jws.extract_compact(token.encode("ascii"), None, REGISTRY)
        header = extracted.headers()
    except (JoseError, ValueError) as error:
        return _malformed(f"`signature.value` is not a compact JWS: {error}")
    key_id = header.get("kid")
    if header.get("alg") != ALGORITHM:
        return SignatureRefused(
            code="SIGNATURE_ALGORITHM", message=f"the signature header must name the algorithm {ALGORITHM}"
        )
    if not isinstance(key_id, str) or named_key_id not in (None, key_id):
        return _malformed("the signature header must carry the key id (`kid`), equal to `signature.keyId`")
    public_key = _public_key(public_keys.get(key_id))
    if public_key is None:
        return SignatureRefused(
            code="SIGNATURE_KEY_UNKNOWN", message=f"no usable trusted key has the id `{key_id}` the signature names"
        )
    try:
        good = jws.validate_compact(extracted, public_key, registry=REGISTRY)
        same = good and extracted.payload == canonical_json(without_signature(document))
    except (JoseError, ValueError) as error:
        return _malformed(f"the signature cannot be checked: {error}")
    if not same:
        return SignatureRefused(
            code="SIGNATURE_INVALID",
            message=f"the signature of key `{key_id}` does not match the definition; it was changed after signing",
        )
    return Verified(key_id=key_id)


def _public_key(spki: str | None) -> OKPKey | None:
    if spki is None:
        return None
    try:
        der = base64.urlsafe_b64decode(spki + "=" * (-len(spki) % 4))
        public_key = load_der_public_key(der)
    except (ValueError, UnsupportedAlgorithm):
        return None
    if not isinstance(public_key, Ed25519PublicKey):
        return None
    return OKPKey.import_key(public_key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))


def _malformed(message: str) -> SignatureRefused:
    return SignatureRefused(code="SIGNATURE_MALFORMED", message=message)
