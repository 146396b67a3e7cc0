"""Audit records of MCP messages that are refused before they become calls.

The gate records what it refuses. This module records messages that never reach it: an unknown method, tool or resource,
invalid parameters, or a revision that is not served. A record has the client's key and address, and one of our codes
instead of the protocol's number. The middleware around all surfaces records other HTTP error responses; it reads the
code from the request state. This module does not import the SDK.
"""

from __future__ import annotations

from contextlib import suppress

import msgspec
from starlette.types import Message

from penstock.asgi import CODE, State
from penstock.base.errors import PenstockError
from penstock.mcp_surface.callers import Caller, ProtocolFault
from penstock.mcp_surface.wire import codes
from penstock.operations.catalogue.errors import INTERNAL_ERROR
from penstock.operations.gate.context import Request
from penstock.operations.gate.pipeline import Gate

__all__ = ["MESSAGE", "note_error_code", "reason_in", "reason_of", "record_error", "record_refusal"]

MESSAGE = "mcp.message"
"""The operation in the record of a message without a known method."""
_IS_ERROR = "mcp_error"
_ERROR_STATUS = 400
_OTHER = "MALFORMED_REQUEST"
_REASONS = {
    codes.PARSE_ERROR: "MALFORMED_JSON",
    codes.INVALID_REQUEST: _OTHER,
    codes.METHOD_NOT_FOUND: "METHOD_NOT_FOUND",
    codes.INVALID_PARAMS: "INVALID_ARGUMENTS",
    codes.INTERNAL_ERROR: INTERNAL_ERROR,
    codes.RESOURCE_NOT_FOUND: "RESOURCE_NOT_FOUND",
    codes.HEADER_MISMATCH: "HEADER_MISMATCH",
    codes.MISSING_CAPABILITY: "CAPABILITY_REQUIRED",
    codes.UNSUPPORTED_VERSION: "PROTOCOL_VERSION_UNSUPPORTED",
}


def reason_of(code: object) -> str:
    """Return our reason code for an error code of the protocol."""
    return _REASONS.get(code, _OTHER) if isinstance(code, int) else _OTHER


def record_refusal(gate: Gate, caller: Caller, operation: str, code: str) -> None:
    """Record that a caller's message is refused; `operation` is the method, or the name of the unknown tool."""
    request = Request(
        operation=operation,
        arguments={},
        principal=caller.principal,
        surface="mcp",
        request_id=caller.request_id,
        remote=caller.remote,
        origin=caller.origin,
    )
    gate.refused(request, code, failed=code == INTERNAL_ERROR)


def record_error(gate: Gate, caller: Caller, operation: str, error: ProtocolFault | PenstockError) -> None:
    """Record that a message is answered with an error, unless the audit log already has it."""
    if error.on_record:
        return
    code = error.code if isinstance(error, PenstockError) else error.reason or reason_of(error.code)
    record_refusal(gate, caller, operation, code)


def note_error_code(state: State, message: Message) -> None:
    """Note the code of the error with which the SDK refuses a request, for the access log and the audit log."""
    if message["type"] == "http.response.start":
        if message["status"] >= _ERROR_STATUS:
            state[_IS_ERROR] = True
    elif _IS_ERROR in state and CODE not in state:
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            state[CODE] = reason_in(msgspec.json.decode(message.get("body", b"")))


def reason_in(answer: object) -> str:
    """Return our reason code for the error in an answer."""
    error = answer.get("error") if isinstance(answer, dict) else None
    return reason_of(error.get("code")) if isinstance(error, dict) else _OTHER
