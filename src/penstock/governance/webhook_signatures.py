"""Signatures of webhooks: verify that the sender of a request knows the secret, and sign the events that are sent.

Received requests are verified by one of four strategies. `hmac` is ours: ``t=<seconds>,v1=<hex>`` in a header, an
HMAC-SHA256 of the time, a dot and the body. `stripe` is the same under Stripe's header. `github` is ``sha256=<hex>`` of
the body alone. `standard` is that of Standard Webhooks, which sent events carry too: an id, a time and base64 in three
headers. Where there is a time, it must be close to now, so that a recorded request cannot be replayed later.

The secret of an endpoint is derived from the server's own secret and the endpoint's id, so it is never stored.

Above it: `operations`, `runtime.webhooks`. Pure: the caller passes the time. Comparisons take constant time.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, assert_never, get_args

__all__ = [
    "SIGNATURE_HEADERS",
    "STRATEGIES",
    "SignatureCheck",
    "Strategy",
    "Unverified",
    "Verified",
    "endpoint_secret",
    "secret_text",
    "sign_request",
    "standard_headers",
    "verify_request",
]

Strategy: TypeAlias = Literal["hmac", "github", "stripe", "standard"]
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
SIGNATURE_HEADERS: dict[Strategy, str] = {
    "hmac": "x-penstock-signature",
    "github": "x-hub-signature-256",
    "stripe": "stripe-signature",
    "standard": "webhook-signature",
}

_SECRET_PREFIX = "whsec_"
_DERIVED_FOR = b"penstock webhook endpoint"
_HEADER_CHARACTERS_MAX = 2_048
# Senders that rotate a secret sign with the old and the new one.
_SIGNATURES_MAX = 10
_SECONDS = re.compile(r"[0-9]{1,12}")
_MESSAGE_ID = re.compile(r"[!-~]{1,256}")


@dataclass(frozen=True, slots=True)
class Verified:
    """The request is genuine. `identity` is the same whenever the very same request is sent again."""

    identity: str


@dataclass(frozen=True, slots=True)
class Unverified:
    """The request cannot be trusted, and why."""

    code: Literal["WEBHOOK_SIGNATURE_MISSING", "WEBHOOK_SIGNATURE_INVALID", "WEBHOOK_SIGNATURE_EXPIRED"]
    message: str


SignatureCheck: TypeAlias = Verified | Unverified


@dataclass(frozen=True, slots=True)
class _Signed:
    """What a header claims: candidate signatures, of which one must match the content, and the time if there is one."""

    content: bytes
    expected: tuple[str, ...]
    form: Literal["hex", "base64"]
    seconds: int | None = None


def verify_request(  # noqa: PLR0913  # everything that a signature depends on
    strategy: Strategy,
    secret: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    now_ms: int,
    skew_ms: int,
    header: str | None = None,
) -> SignatureCheck:
    """Check whether a request is genuine. Header names are in lower case; `header` overrides the usual one."""
    name = (header or SIGNATURE_HEADERS[strategy]).lower()
    value = headers.get(name)
    if not value:
        return Unverified("WEBHOOK_SIGNATURE_MISSING", f"the header {name} is missing")
    signed = _signed(strategy, value[: _HEADER_CHARACTERS_MAX + 1], headers, body)
    if signed is None:
        return Unverified("WEBHOOK_SIGNATURE_INVALID", f"the header {name} is not written as {strategy} wants it")
    digest = hmac.digest(_key(strategy, secret), signed.content, "sha256")
    right = digest.hex() if signed.form == "hex" else base64.b64encode(digest).decode()
    # Compare every candidate, so that the time taken does not reveal which of them came close.
    matches = [hmac.compare_digest(right.encode(), claim.encode()) for claim in signed.expected]
    if not any(matches):
        return Unverified("WEBHOOK_SIGNATURE_INVALID", "the signature does not match the body and the secret")
    if signed.seconds is not None and abs(now_ms - signed.seconds * 1_000) > skew_ms:
        message = f"the signature was made more than {skew_ms // 1_000} s before or after now"
        return Unverified("WEBHOOK_SIGNATURE_EXPIRED", message)
    return Verified(f"{strategy}:{right}")


def _signed(strategy: Strategy, value: str, headers: Mapping[str, str], body: bytes) -> _Signed | None:
    if len(value) > _HEADER_CHARACTERS_MAX or not value.isascii():
        return None
    match strategy:
        case "hmac" | "stripe":
            return _timed(value, body)
        case "github":
            algorithm, _, claim = value.partition("=")
            return _Signed(body, (claim.strip().lower(),), "hex") if algorithm == "sha256" else None
        case "standard":
            return _standard(value, headers, body)
        case _:
            assert_never(strategy)


def _timed(value: str, body: bytes) -> _Signed | None:
    parts = [part.strip().partition("=") for part in value.split(",")]
    times = [text for name, _, text in parts if name == "t"]
    claims = tuple(text.lower() for name, _, text in parts if name == "v1")
    if len(times) != 1 or not _SECONDS.fullmatch(times[0]) or not 0 < len(claims) <= _SIGNATURES_MAX:
        return None
    return _Signed(f"{times[0]}.".encode() + body, claims, "hex", int(times[0]))


def _standard(value: str, headers: Mapping[str, str], body: bytes) -> _Signed | None:
    message_id, seconds = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    claims = tuple(claim.removeprefix("v1,") for claim in value.split() if claim.startswith("v1,"))
    if not _MESSAGE_ID.fullmatch(message_id) or not _SECONDS.fullmatch(seconds):
        return None
    if not 0 < len(claims) <= _SIGNATURES_MAX:
        return None
    return _Signed(f"{message_id}.{seconds}.".encode() + body, claims, "base64", int(seconds))


def _key(strategy: Strategy, secret: str) -> bytes:
    """Return the signing key. A secret of Standard Webhooks is base64 after its prefix."""
    if strategy == "standard" and secret.startswith(_SECRET_PREFIX):
        try:
            return base64.b64decode(secret.removeprefix(_SECRET_PREFIX), validate=True)
        except (binascii.Error, ValueError):
            pass
    return secret.encode()


def sign_request(secret: str, body: bytes, *, now_ms: int) -> str:
    """Return the value of `X-Penstock-Signature`, as senders compute it."""
    seconds = now_ms // 1_000
    return f"t={seconds},v1={hmac.digest(secret.encode(), f'{seconds}.'.encode() + body, 'sha256').hex()}"


def endpoint_secret(pepper: bytes, tenant: str, endpoint_id: str, version: int) -> bytes:
    """Return the secret that signs the events for an endpoint."""
    named = b"\0".join((_DERIVED_FOR, tenant.encode(), endpoint_id.encode(), str(version).encode()))
    return hmac.digest(pepper, named, "sha256")


def secret_text(secret: bytes) -> str:
    """Return a secret in the form that receivers of events get."""
    return _SECRET_PREFIX + base64.b64encode(secret).decode()


def standard_headers(secrets: tuple[bytes, ...], message_id: str, body: bytes, *, now_ms: int) -> dict[str, str]:
    """Return the headers of an event to be sent, signed with each of the secrets."""
    seconds = str(now_ms // 1_000)
    content = f"{message_id}.{seconds}.".encode() + body
    signatures = (base64.b64encode(hmac.digest(secret, content, "sha256")).decode() for secret in secrets)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": seconds,
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }
