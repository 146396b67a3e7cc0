"""Errors in the form of the OpenWOP wire: `{error, message, details}`, with the codes that it publishes.

Our own codes are in `details.code`.
"""

from __future__ import annotations

from typing import NamedTuple

from starlette.types import Scope, Send

from penstock.asgi import CODE, request_id_of
from penstock.base.encoding import encode_bytes
from penstock.base.errors import LimitExceeded, NotFound, PenstockError, Rejected
from penstock.base.json import JsonObject
from penstock.operations.catalogue.reasons import hint_of
from penstock.rest.problems import problem_headers, problem_status
from penstock.rest.responses import CLIENT_LEFT, send_response

__all__ = ["Published", "published", "send_envelope", "wire_rejected"]

_SERVER_ERROR = 500


class Published(NamedTuple):
    """The HTTP status and the wire's code of an error."""

    status: int
    error: str


_BY_CODE = {
    "UNAUTHENTICATED": Published(401, "unauthenticated"),
    "KEY_EXPIRED": Published(401, "key_expired"),
    "KEY_REVOKED": Published(401, "key_revoked"),
    "TOKEN_INVALID": Published(401, "unauthenticated"),
    "TOKEN_EXPIRED": Published(401, "key_expired"),
    "TOKEN_REVOKED": Published(401, "key_revoked"),
    "SCOPE_REQUIRED": Published(403, "forbidden"),
    "POLICY_DENIED": Published(403, "forbidden"),
    "APPROVAL_REQUIRED": Published(403, "forbidden"),
    "TENANT_DIFFERS": Published(403, "forbidden"),
    "ENGINE_VERSION_FORCED": Published(403, "force_engine_version_forbidden"),
    "STREAM_EVENTS_UNKNOWN": Published(400, "unsupported_stream_mode"),
    "IDEMPOTENCY_KEY_REUSED": Published(409, "idempotency_key_mismatch"),
    "IDEMPOTENCY_IN_FLIGHT": Published(409, "idempotency_in_flight"),
    "CANCEL_NOT_ALLOWED": Published(409, "run_terminal"),
    "RUN_ENDED": Published(409, "run_terminal"),
    "PAUSE_NOT_ALLOWED": Published(409, "run_state_conflict"),
    "RESUME_NOT_ALLOWED": Published(409, "run_state_conflict"),
    "NO_OPEN_QUESTION": Published(404, "interrupt_not_found"),
    "ALREADY_ANSWERED": Published(409, "interrupt_already_resolved"),
    "WIRE_VERSION_UNSUPPORTED": Published(400, "protocol_version_unsupported"),
    "PACK_PEER_DEPENDENCY_MISSING": Published(422, "pack_peer_dependency_missing"),
    "PACK_NODE_UNSUPPORTED": Published(422, "capability_required"),
}


def wire_rejected(message: str, details: JsonObject | None = None) -> Rejected:
    """Build the refusal of a request that this wire does not accept."""
    return Rejected("MALFORMED_REQUEST", message, "", details)


def published(error: PenstockError) -> Published:
    """Return the HTTP status and the wire's code of an error."""
    named = _BY_CODE.get(error.code)
    if named is not None:
        return named
    status = problem_status(error)
    if isinstance(error, NotFound):
        return Published(404, "not_found")
    if isinstance(error, Rejected):
        # This wire has one status for all of these; a wrong media type or method keeps its own.
        return Published(status if status in (405, 415) else 400, "validation_error")
    if isinstance(error, LimitExceeded):
        return Published(status, "rate_limited" if status == 429 else "validation_error")  # noqa: PLR2004  # RFC 6585
    if status < _SERVER_ERROR:
        return Published(status, "run_state_conflict")
    return Published(status, "internal_error")


async def send_envelope(send: Send, scope: Scope, error: PenstockError) -> None:
    """Send an error, unless the client has already disconnected."""
    scope["state"][CODE] = error.code
    if error.code == CLIENT_LEFT:
        return
    found = published(error)
    details: JsonObject = {**error.details, "code": error.code, "correlationId": request_id_of(scope)}
    details.pop("allow", None)
    hint = hint_of(error)
    if hint:
        details["hint"] = hint
    wait = details.pop("retry_after_seconds", None)
    if isinstance(wait, int):
        details.update({"retryAfterMs": wait * 1000, "scope": "key"})
    if "scope" in error.details and error.code == "SCOPE_REQUIRED":
        details["scopeRequired"] = details.pop("scope")
    body = {"error": found.error, "message": error.message or found.error, "details": details}
    headers = [(b"content-type", b"application/json"), *problem_headers(error)]
    await send_response(send, found.status, encode_bytes(body), headers)
