"""Reason codes of the agent profile: one table from our codes to its codes and HTTP statuses.

The profile has few codes. What has none of its own gets the code of its class, so that a client knows what to do. A
code that is a reason why an action became a draft instead of being executed is in `DENIED`.

Above it: `envelope`, the planes. Below it: `base.errors`.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.base.errors import Conflict, Denied, LimitExceeded, NotFound, PenstockError, Rejected
from penstock.rest.problems import problem_status

__all__ = ["DENIED", "SUCCESS", "Published", "profile_code", "published"]

SUCCESS = "common.success"
_VALIDATION = "common.validation"
_INVALID_ACTION = "agent.action_invalid"
_PRECONDITION = "agent.precondition_failed"
_FORBIDDEN = "agent.forbidden"
_INTERNAL = "common.internal_error"
_SERVER_ERROR = 500


class Published(NamedTuple):
    """A code of the profile and its HTTP status; `reason` goes into `details` of the profile's codes that need one."""

    status: int
    code: str
    reason: str | None = None


_BY_CODE: dict[str, Published] = {
    "UNAUTHENTICATED": Published(401, "agent.token_invalid"),
    "KEY_REVOKED": Published(401, "agent.token_invalid"),
    "KEY_EXPIRED": Published(401, "agent.token_expired"),
    "TOKEN_INVALID": Published(401, "agent.token_invalid"),
    "TOKEN_REVOKED": Published(401, "agent.token_invalid"),
    "TOKEN_EXPIRED": Published(401, "agent.token_expired"),
    "SCOPE_REQUIRED": Published(403, "agent.scope_denied"),
    "POLICY_DENIED": Published(403, "agent.policy_denied"),
    "OPERATION_NOT_FOUND": Published(400, "agent.action_unknown"),
    "INVALID_ARGUMENTS": Published(400, _INVALID_ACTION),
    "INPUT_INVALID": Published(400, _INVALID_ACTION),
    "ARGUMENTS_TOO_DEEP": Published(400, _INVALID_ACTION),
    "DRAFT_NOT_FOUND": Published(404, "agent.draft_not_found"),
    "DRAFT_FINAL": Published(400, "agent.draft_already_final"),
    "DRAFT_DRIFTED": Published(409, _PRECONDITION, "state_witness_mismatch"),
    "DRAFT_FAILED": Published(409, _PRECONDITION, "execution_failed"),
    "WITNESS_MISMATCH": Published(409, _PRECONDITION, "state_witness_mismatch"),
    "WITNESS_UNSUPPORTED": Published(409, _PRECONDITION, "state_witness_unsupported"),
    "APPROVAL_EXPIRED": Published(409, _PRECONDITION, "approval_expired"),
    "DIGEST_MISMATCH": Published(400, "agent.preflight_mismatch"),
    "PREFLIGHT_NOT_FOUND": Published(400, "agent.preflight_not_found"),
    "PREFLIGHT_MISMATCH": Published(400, "agent.preflight_mismatch"),
    "RATE_LIMITED": Published(429, "agent.rate_limited"),
    "CONCURRENCY_LIMITED": Published(429, "agent.rate_limited"),
    "APP_ACTIVE": Published(400, _VALIDATION),
    "APP_HAS_DRAFTS": Published(400, _VALIDATION),
    "IDEMPOTENCY_KEY_REUSED": Published(422, _VALIDATION, "idempotency_key_reused"),
    "IDEMPOTENCY_KEY_INVALID": Published(400, _VALIDATION),
    "IDEMPOTENCY_IN_FLIGHT": Published(409, _PRECONDITION, "idempotency_in_flight"),
    "PRECONDITION_FAILED": Published(409, _PRECONDITION, "state_witness_mismatch"),
}

DENIED: dict[str, str] = {
    "AUTO_EXECUTE_DISABLED": "agent.auto_execute_disabled",
    "AUTO_EXECUTE_DENIED": "agent.auto_execute_denied",
    "AUTO_EXECUTE_EXPIRED": "agent.auto_execute_expired",
    "JUSTIFICATION_REQUIRED": _INVALID_ACTION,
    "IDEMPOTENCY_KEY_REQUIRED": "agent.idempotency_required",
    "PREFLIGHT_REQUIRED": "agent.preflight_required",
    "PREFLIGHT_MISMATCH": "agent.preflight_mismatch",
    "DIGEST_MISMATCH": "agent.preflight_mismatch",
}
"""Why an action became a draft: our code to the profile's."""


def published(error: PenstockError) -> Published:
    """Return the profile's code and status of an error."""
    named = _BY_CODE.get(error.code)
    if named is not None:
        return named
    status = problem_status(error)
    if status >= _SERVER_ERROR:
        return Published(status, _INTERNAL)
    if isinstance(error, NotFound):
        return Published(404, "agent.not_found")
    if isinstance(error, Denied):
        return Published(status, _FORBIDDEN)
    if isinstance(error, Conflict):
        return Published(409, _PRECONDITION)
    if isinstance(error, LimitExceeded):
        return Published(status, "agent.rate_limited" if status == 429 else _VALIDATION)  # noqa: PLR2004  # RFC 6585
    if isinstance(error, Rejected):
        # The profile has one status for what cannot be accepted; a wrong media type or method keeps its own.
        return Published(status if status in (405, 415) else 400, _VALIDATION)
    return Published(status, _INTERNAL)


def profile_code(code: str | None, kind: type[PenstockError] = Rejected) -> str | None:
    """Return the profile's code for one of ours, for audit records; `kind` is its class."""
    return None if code is None else published(kind(code, "")).code
