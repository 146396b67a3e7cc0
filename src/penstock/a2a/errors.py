"""Errors of the A2A wire: one table from our errors to the codes of the protocol.

Above it: `endpoint`, `methods`, `messages`. Below it: `base.errors`.
"""

from __future__ import annotations

from typing import Final

from penstock.base.errors import Denied, LimitExceeded, NotFound, PenstockError, Rejected, Unavailable
from penstock.base.json import JsonObject, JsonValue
from penstock.operations.catalogue.reasons import hint_of

__all__ = [
    "CONTENT_TYPE_NOT_SUPPORTED",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "METHOD_NOT_FOUND",
    "PARSE_ERROR",
    "REFUSED",
    "TASK_NOT_CANCELABLE",
    "TASK_NOT_FOUND",
    "UNSUPPORTED_OPERATION",
    "VERSION_NOT_SUPPORTED",
    "RpcError",
    "error_body",
    "rpc_error",
]

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
TASK_NOT_FOUND: Final = -32001
TASK_NOT_CANCELABLE: Final = -32002
UNSUPPORTED_OPERATION: Final = -32004
CONTENT_TYPE_NOT_SUPPORTED: Final = -32005
VERSION_NOT_SUPPORTED: Final = -32009
# Codes from -32000 to -32099 are for servers; the protocol uses the first ones.
REFUSED: Final = -32050
LIMITED: Final = -32051
_OF_CODES: Final = {
    "EXECUTION_NOT_FOUND": TASK_NOT_FOUND,
    "EXECUTION_ENDED": TASK_NOT_CANCELABLE,
    "EXECUTION_FINAL": TASK_NOT_CANCELABLE,
}
_ERROR_INFO: Final = "type.googleapis.com/google.rpc.ErrorInfo"


class RpcError(Exception):
    """A refusal in the terms of the wire."""

    def __init__(self, code: int, message: str, reason: str, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.reason = reason
        self.hint = hint


def rpc_error(error: PenstockError) -> RpcError:
    """Return one of our errors as one of the wire."""
    code = _OF_CODES.get(error.code)
    if code is None:
        match error:
            case Denied():
                code = REFUSED
            case LimitExceeded():
                code = LIMITED
            case Rejected() | NotFound():
                code = INVALID_PARAMS
            case Unavailable():
                code = INTERNAL_ERROR
            case _:
                code = REFUSED
    return RpcError(code, error.message, error.code, hint_of(error) or "")


def error_body(request_id: JsonValue, error: RpcError) -> JsonObject:
    """Return the answer that says what went wrong."""
    info: JsonObject = {"@type": _ERROR_INFO, "reason": error.reason, "domain": "penstock"}
    if error.hint:
        info["metadata"] = {"hint": error.hint}
    said: JsonObject = {"code": error.code, "message": error.message, "data": [info]}
    return {"jsonrpc": "2.0", "id": request_id, "error": said}
