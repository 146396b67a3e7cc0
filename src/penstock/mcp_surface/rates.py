"""Rate limits of MCP requests: HTTP status 429 with `Retry-After` where the transport allows it, error data otherwise.

A tool call, and a look at a task, is counted by the gate, as a call of its capability. Every other request (a list, a
handshake, a ping) is counted here, as a read. A single request over HTTP is refused with status 429. A message in a
batch, on an event stream that has begun or on a pipe has no status of its own: its JSON-RPC error says in
`retry_after_seconds` when to try again. This module does not import the SDK.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from starlette.types import Message

from penstock.asgi import CODE, Headers, State
from penstock.base.errors import LimitExceeded, PenstockError
from penstock.base.json import JsonObject
from penstock.mcp_surface.callers import Caller
from penstock.mcp_surface.methods import CALL, GATED, known_method
from penstock.mcp_surface.tools.tool_list import Tool
from penstock.operations.catalogue.reasons import hint_of
from penstock.operations.gate.pipeline import Gate
from penstock.operations.gate.rates.limiter import RATE_CODES

__all__ = [
    "COUNTED",
    "TOO_MANY",
    "RequestRates",
    "called_tool",
    "error_data",
    "is_rate_limited",
    "note_rate_limit",
    "retry_headers",
    "with_status",
]

TOO_MANY = 429
COUNTED: ContextVar[bool] = ContextVar("penstock_mcp_counted", default=False)
"""Whether the message that is dispatched was counted before: it was answered while the SDK was not loaded yet."""
_RETRY_STATE = "mcp_retry_after"


def called_tool(message: Any) -> str | None:
    """Return the name of the tool that a message calls."""
    params = message.get("params") if isinstance(message, dict) and message.get("method") == CALL else None
    name = params.get("name") if isinstance(params, dict) else None
    return name if isinstance(name, str) else None


def is_rate_limited(error: PenstockError) -> bool:
    """Return whether a call was refused because of too many calls: waiting helps, and nothing else does."""
    return error.code in RATE_CODES


def error_data(error: PenstockError) -> JsonObject:
    """Return the data of a JSON-RPC error: our code, what to do, and how long to wait."""
    data: JsonObject = {"code": error.code, "hint": hint_of(error)}
    wait = error.details.get("retry_after_seconds")
    return data if wait is None else {**data, "retry_after_seconds": wait}


def retry_headers(error: PenstockError) -> Headers:
    """Return the `Retry-After` header of an error, if it says when to try again."""
    wait = error.details.get("retry_after_seconds")
    return [(b"retry-after", b"%d" % wait)] if isinstance(wait, int) else []


def note_rate_limit(state: State, error: PenstockError) -> None:
    """Note for the response that is about to begin that its request was refused because of too many."""
    if is_rate_limited(error):
        state[_RETRY_STATE] = retry_headers(error)
        state[CODE] = error.code


def with_status(state: State, message: Message) -> Message:
    """Return the beginning of a response with status 429, if its only request was refused because of too many."""
    if message["type"] != "http.response.start" or _RETRY_STATE not in state:
        return message
    is_json = any(name == b"content-type" and value == b"application/json" for name, value in message["headers"])
    if not is_json:
        return message
    return {**message, "status": TOO_MANY, "headers": [*message["headers"], *state[_RETRY_STATE]]}


class RequestRates:
    """Counts the requests of callers."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def charge(self, caller: Caller, method: str) -> None:
        """Count a request, unless the gate counts it; raise `LimitExceeded` with the time to wait."""
        if method not in GATED:
            now = self._gate.services.clock.now_ms()
            self._gate.rate_limiter.charge(caller.principal, known_method(method), "read", now)

    def charge_lookup(self, caller: Caller) -> None:
        """Count a tool call that never reaches the gate: there is no such tool, or it only looks up others."""
        now = self._gate.services.clock.now_ms()
        self._gate.rate_limiter.charge(caller.principal, CALL, "read", now)

    def refusal(self, caller: Caller, message: Any, tool: Tool | None) -> LimitExceeded | None:
        """Return the error that a request would be refused with now; `tool` is the tool that it calls."""
        method = message.get("method") if isinstance(message, dict) else None
        if not isinstance(method, str) or (method in GATED and tool is None):
            return None
        name = known_method(method) if tool is None else tool.capability.name
        bucket = "read" if tool is None else tool.capability.governance.bucket
        now = self._gate.services.clock.now_ms()
        return self._gate.rate_limiter.refusal(caller.principal, name, bucket, now)
