"""The caller of a request, calls of operations on their behalf, and protocol errors. It does not import the SDK."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.base.json import JsonObject, JsonValue
from penstock.mcp_surface.tools.tool_list import ToolList
from penstock.mcp_surface.wire.codes import INVALID_PARAMS, MISSING_CAPABILITY
from penstock.operations.catalogue.capability import EventStream
from penstock.operations.gate.context import INTENT_NAMES, Origin, Principal, Request
from penstock.operations.gate.pipeline import AnsweredCall, Gate, RefusedCall
from penstock.operations.gate.policy_stage import Standpoint

__all__ = [
    "IDEMPOTENCY_META",
    "INTENT_META",
    "TASKS_EXTENSION",
    "Caller",
    "ProtocolFault",
    "call_operation",
    "capabilities_missing",
    "plain_value",
    "tasks_missing",
]

TASKS_EXTENSION = "io.modelcontextprotocol/tasks"
IDEMPOTENCY_META = "penstock/idempotency_key"
"""The key in a request's metadata that holds the idempotency key."""
INTENT_META = {name: f"penstock/{name}" for name in INTENT_NAMES}
"""The keys in a request's metadata with which a caller says more about a change than its arguments do."""


class ProtocolFault(Exception):
    """A JSON-RPC error, as opposed to a tool result."""

    def __init__(
        self,
        code: int,
        message: str,
        data: JsonValue = None,
        *,
        reason: str | None = None,
        on_record: bool = False,
    ) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.data = data
        self.reason = reason
        """Our reason code, where the number of the protocol is not specific enough."""
        self.on_record = on_record
        """Whether the audit log already has it, because a call was made and this is its outcome."""


def capabilities_missing(what: str, needed: JsonObject) -> ProtocolFault:
    """Build the error for a client that lacks a required capability."""
    message = f"{what} needs a client with {', '.join(needed)}"
    return ProtocolFault(MISSING_CAPABILITY, message, {"requiredCapabilities": needed})


def tasks_missing(what: str) -> ProtocolFault:
    """Build the error for a client that does not support tasks."""
    needed: JsonObject = {"extensions": {TASKS_EXTENSION: {}}}
    message = f"{what} needs a client with the extension {TASKS_EXTENSION}"
    return ProtocolFault(MISSING_CAPABILITY, message, {"requiredCapabilities": needed})


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Who sent a request, and how."""

    principal: Principal
    request_id: str
    remote: str | None = None
    origin: Origin | None = None
    toolset: str | None = None
    """The toolset that their address asks for; None for the configured one."""
    whole_keys: bool = False
    """Whether questions are identified by their whole, globally unique id instead of by their node."""
    tool_list: ToolList | None = None
    """Their tools for the duration of this request, if they were looked up already."""
    address: str | None = None
    """The address at which they reach the server with a browser; None if they cannot."""

    @property
    def standpoint(self) -> Standpoint:
        """From where they call, for policies about lists."""
        return Standpoint(surface="mcp", remote=self.remote)


async def call_operation(gate: Gate, caller: Caller, operation: str, arguments: JsonObject, **more: Any) -> object:
    """Call an operation for a caller and return its value; refusals are raised."""
    request = Request(
        operation=operation,
        arguments=arguments,
        principal=caller.principal,
        surface="mcp",
        request_id=caller.request_id,
        trusted=False,
        remote=caller.remote,
        origin=caller.origin,
        **more,
    )
    outcome = await gate.call(request)
    if isinstance(outcome, RefusedCall):
        raise outcome.error
    return plain_value(outcome)


def plain_value(outcome: AnsweredCall) -> object:
    """Return the value of a call; a stream is refused, because a tool cannot return one."""
    if isinstance(outcome.reply, EventStream):
        raise ProtocolFault(INVALID_PARAMS, "this answers with a stream, which tools cannot")
    return outcome.reply.value
