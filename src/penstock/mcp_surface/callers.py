"""Who calls, how an operation is called for them, and faults of the protocol. This module does not know the SDK."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.base.json import JsonObject, JsonValue
from penstock.mcp_surface.tools.tool_list import ToolList
from penstock.mcp_surface.wire.codes import INVALID_PARAMS, MISSING_CAPABILITY
from penstock.operations.catalogue.capability import EventStream
from penstock.operations.gate.context import Principal, Request
from penstock.operations.gate.pipeline import AnsweredCall, Gate, RefusedCall

__all__ = [
    "IDEMPOTENCY_META",
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
"""Where the metadata of a request has its idempotency key."""


class ProtocolFault(Exception):
    """A fault of the protocol: an error of JSON-RPC, not a result."""

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
        """Our code for it, where the number says too little."""
        self.on_record = on_record
        """Whether the audit trail has it: a call was made, and its outcome is told so."""


def capabilities_missing(what: str, needed: JsonObject) -> ProtocolFault:
    """Only clients that can do this can have it."""
    message = f"{what} needs a client with {', '.join(needed)}"
    return ProtocolFault(MISSING_CAPABILITY, message, {"requiredCapabilities": needed})


def tasks_missing(what: str) -> ProtocolFault:
    """Only clients that take tasks can have this."""
    needed: JsonObject = {"extensions": {TASKS_EXTENSION: {}}}
    message = f"{what} needs a client with the extension {TASKS_EXTENSION}"
    return ProtocolFault(MISSING_CAPABILITY, message, {"requiredCapabilities": needed})


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Who calls."""

    principal: Principal
    request_id: str
    remote: str | None = None
    toolset: str | None = None
    """The tools that their address asks for; None for those that the settings say."""
    whole_keys: bool = False
    """Whether questions are called by their whole id, which no other question anywhere has, and not by their node."""
    tool_list: ToolList | None = None
    """Their tools as they are while this request is answered, if somebody has looked already."""
    address: str | None = None
    """Under which they reach the server with a browser; None if they do not."""


async def call_operation(gate: Gate, caller: Caller, operation: str, arguments: JsonObject, **more: Any) -> object:
    """What an operation answers to a caller; raises what it refuses with."""
    request = Request(
        operation=operation,
        arguments=arguments,
        principal=caller.principal,
        surface="mcp",
        request_id=caller.request_id,
        trusted=False,
        remote=caller.remote,
        **more,
    )
    outcome = await gate.call(request)
    if isinstance(outcome, RefusedCall):
        raise outcome.error
    return plain_value(outcome)


def plain_value(outcome: AnsweredCall) -> object:
    """What a call was answered with; a stream is nothing that a tool can answer with."""
    if isinstance(outcome.reply, EventStream):
        raise ProtocolFault(INVALID_PARAMS, "this answers with a stream, which tools cannot")
    return outcome.reply.value
