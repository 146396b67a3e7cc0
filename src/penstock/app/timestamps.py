"""Stamps of a time-stamping authority (RFC 3161): how they are requested, read and verified.

The time in a checkpoint is the server's word. A stamp is the word of somebody else: that this text existed at this
time. It is verified offline, with the certificate of the authority. The library for it is an optional extra.

Above it: `serving.stamping` asks for stamps, `audit_files` and `penstock server doctor` verify them. Below it:
`rfc3161_client`, `cryptography`. It sends nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from penstock.base.errors import Rejected, Unavailable
from penstock.base.lazy_import import lazy_import
from penstock.runtime.extras import install_hint

if TYPE_CHECKING:
    import rfc3161_client
    from cryptography import x509
    from rfc3161_client import errors as rfc3161_errors
else:
    rfc3161_client = lazy_import("rfc3161_client")
    rfc3161_errors = lazy_import("rfc3161_client.errors")
    x509 = lazy_import("cryptography.x509")

__all__ = [
    "Authorities",
    "Stamp",
    "StampInvalid",
    "StampRequest",
    "read_authorities",
    "read_stamp",
    "require_timestamps",
    "stamp_request",
    "verify_stamp",
]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# What the library says before pages of OpenSSL's own words.
_NOT_TRUSTED = "Error while verifying certificates"


@dataclass(frozen=True, slots=True)
class Authorities:
    """The certificates that stamps are verified with; every chain of trust ends at one of them."""

    certificates: tuple[x509.Certificate, ...]


@dataclass(frozen=True, slots=True)
class StampRequest:
    """What is sent to an authority, and the number that its answer has to repeat."""

    body: bytes
    nonce: int | None


@dataclass(frozen=True, slots=True)
class Stamp:
    """A stamp, as the authority encoded it, and its time in milliseconds."""

    token: bytes
    at: int


@dataclass(frozen=True, slots=True)
class StampInvalid:
    """The data is not a stamp of this text by a trusted authority, and why."""

    reason: str


StampOutcome: TypeAlias = Stamp | StampInvalid


def require_timestamps() -> None:
    """Check that the library is installed; the error says what to install."""
    if find_spec("rfc3161_client") is None:
        message = "verifying time stamps needs a library that is not installed"
        raise Unavailable("EXTRA_NOT_INSTALLED", message, install_hint("timestamp"))


def read_authorities(path: Path) -> Authorities:
    """Read certificates from a file in PEM."""
    require_timestamps()
    try:
        found = x509.load_pem_x509_certificates(path.read_bytes())
    except OSError as error:
        raise Rejected(
            "FILE_UNREADABLE", f"{path} cannot be read ({type(error).__name__})", "choose another file"
        ) from error
    except ValueError as error:
        hint = "put the certificate of the authority, or of its root, into the file, in PEM format"
        raise Rejected("TIMESTAMP_CERTIFICATE_INVALID", f"{path} has no certificates: {error}", hint) from error
    return Authorities(tuple(found))


def stamp_request(text: str) -> StampRequest:
    """Return the request for a stamp on a text. Only a hash of the text is sent."""
    builder = rfc3161_client.TimestampRequestBuilder().data(text.encode())
    request = builder.hash_algorithm(rfc3161_client.HashAlgorithm.SHA512).build()
    return StampRequest(request.as_bytes(), request.nonce)


def read_stamp(answer: bytes, text: str, request: StampRequest, authorities: Authorities | None = None) -> StampOutcome:
    """Return the stamp in the answer of an authority, if it is of this text and for this request.

    Without certificates its signature is not verified; users of the stamp verify it.
    """
    try:
        response = rfc3161_client.decode_timestamp_response(answer)
        if response.status != rfc3161_client.PKIStatus.GRANTED:
            said = "; ".join(response.status_string)[:200]
            return StampInvalid(f"the authority refused it (status {response.status}{': ' + said if said else ''})")
        if response.tst_info.nonce != request.nonce:
            return StampInvalid("the authority answered another request")
        if authorities is None:
            asked = rfc3161_client.TimestampRequestBuilder().data(text.encode()).build().message_imprint
            if response.tst_info.message_imprint.message != asked.message:
                return StampInvalid("the stamp is of another text")
            return Stamp(answer, _milliseconds(response.tst_info.gen_time))
    except (ValueError, rfc3161_errors.VerificationError) as error:
        return StampInvalid(f"the answer is not a stamp: {error}")
    return verify_stamp(answer, text, authorities)


def verify_stamp(token: bytes, text: str, authorities: Authorities) -> StampOutcome:
    """Verify a stamp on a text: the signature, the chain of trust at the time of the stamp, and the text."""
    try:
        response = rfc3161_client.decode_timestamp_response(token)
        builder = rfc3161_client.VerifierBuilder(roots=list(authorities.certificates))
        builder.build().verify_message(response, text.encode())
        return Stamp(token, _milliseconds(response.tst_info.gen_time))
    except (ValueError, rfc3161_errors.VerificationError) as error:
        said = str(error)
        if said.startswith(_NOT_TRUSTED):
            return StampInvalid("it is not signed by an authority whose certificate was given")
        return StampInvalid(said[:300] or type(error).__name__)


def _milliseconds(moment: datetime) -> int:
    return (moment.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)
