"""JSON-RPC messages: which values are valid messages, and the error that answers an invalid one.

The SDK takes a message with an invalid id for a notification, and does not answer. JSON-RPC requires an answer even to
a request that cannot be read: with its id if that is valid, else with null.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from penstock.base.json import JsonObject, JsonValue
from penstock.mcp_surface.wire.codes import INVALID_PARAMS, INVALID_REQUEST

__all__ = [
    "BATCHING",
    "brings_envelope",
    "decoded",
    "error_message",
    "is_request",
    "refusal_of",
]

BATCHING = "2025-03-26"
"""The only revision in which several messages may be sent as a list."""

_ENVELOPE = "io.modelcontextprotocol/protocolVersion"


def error_message(message_id: JsonValue, code: int, message: str, data: JsonValue = None) -> JsonObject:
    """Build an error message that answers a message."""
    error: JsonObject = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return {"jsonrpc": "2.0", "id": message_id, "error": error}


def decoded(raw: bytes) -> tuple[bool, Any]:
    """Decode JSON; returns whether that worked, and the value."""
    try:
        return True, msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False, None


def is_request(message: Mapping[str, Any]) -> bool:
    """Return whether a message expects an answer."""
    return "method" in message and "id" in message


def refusal_of(value: Any) -> JsonObject | None:
    """Return the error that answers an invalid message; None for a valid one."""
    if not isinstance(value, dict):
        return error_message(None, INVALID_REQUEST, "Invalid Request: a message is an object")
    given = value.get("id")
    known = given if isinstance(given, str | int) and not isinstance(given, bool) else None
    if "id" in value and known is None and "error" not in value:
        return error_message(None, INVALID_REQUEST, "Invalid Request: the id must be a text or a whole number")
    if value.get("jsonrpc") != "2.0":
        return error_message(known, INVALID_REQUEST, 'Invalid Request: `jsonrpc` must be "2.0"')
    if "method" not in value and ("result" in value or "error" in value):
        # A response is never answered, whatever is in it.
        return None
    if not isinstance(value.get("method"), str):
        return error_message(known, INVALID_REQUEST, "Invalid Request: `method` must be a text")
    params = value.get("params", {})
    if params is not None and not isinstance(params, dict):
        code = INVALID_PARAMS if isinstance(params, list) else INVALID_REQUEST
        return error_message(known, code, "Invalid params: `params` must be an object")
    return None


def brings_envelope(message: Mapping[str, Any]) -> bool:
    """Return whether a request names its own revision, as requests of the newest era do."""
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    return isinstance(meta, dict) and _ENVELOPE in meta
