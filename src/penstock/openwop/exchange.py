"""One request on the OpenWOP wire, and the calls of operations that answer it. Nothing is decided here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
from starlette.types import Receive, Scope, Send

from penstock.asgi import Headers, HttpOrigin, remote_of, request_id_of
from penstock.base.errors import Denied
from penstock.base.json import JsonObject, JsonValue
from penstock.openwop.errors import wire_rejected
from penstock.operations.catalogue.capability import EventStream, Reply
from penstock.operations.gate.context import Principal, Request
from penstock.operations.gate.pipeline import AnsweredCall, Gate, RefusedCall
from penstock.rest.endpoints import authenticated, note_outcome
from penstock.rest.requests import headers_of, query_of, read_body

__all__ = ["Exchange"]


@dataclass(slots=True, kw_only=True)
class Exchange:
    """A request, and what is needed to answer it."""

    gate: Gate
    scope: Scope
    receive: Receive
    send: Send
    max_body_bytes: int
    headers: dict[str, str]
    query: dict[str, str]
    version: str
    answer_headers: Headers = field(default_factory=list)
    _principal: Principal | None = None

    @classmethod
    def of(cls, gate: Gate, ends: tuple[Scope, Receive, Send], *, max_body_bytes: int, version: str) -> Exchange:
        """Build the exchange of a request; `ends` are the three arguments of an ASGI application."""
        scope, receive, send = ends
        return cls(
            gate=gate,
            scope=scope,
            receive=receive,
            send=send,
            max_body_bytes=max_body_bytes,
            headers=headers_of(scope),
            query=dict(query_of(scope)),
            version=version,
        )

    def named(self, parameter: str) -> str:
        """Return a path parameter."""
        found: str = self.scope["path_params"][parameter]
        return found

    async def body(self) -> JsonObject:
        """Read the body: an object, or empty."""
        await self.principal("authenticate")  # nothing that an unknown client sends is read
        content = await read_body(self.receive, self.scope, self.headers, self.max_body_bytes)
        if not content:
            return {}
        try:
            value = msgspec.json.decode(content)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise wire_rejected("the body is not JSON") from None
        if not isinstance(value, dict):
            raise wire_rejected("the body must be an object")
        return value

    async def call(self, operation: str, arguments: JsonObject, *, once: bool = False, may_wait: bool = False) -> Any:
        """Call an operation and return its answer as JSON; with `once` the request's idempotency key applies to it.

        A call that is held is refused here, unless the answer can say that it `may_wait`.
        """
        answered = await self._call(operation, arguments, once=once)
        reply = answered.reply
        if not isinstance(reply, Reply):
            raise TypeError(f"{operation} answers with a stream")
        if answered.replayed:
            self.answer_headers.append((b"openwop-idempotent-replay", b"true"))
        value = msgspec.to_builtins(reply.value)
        held = value.get("held") if isinstance(value, dict) else None
        if held is not None and not may_wait:
            message = f"{operation} waits for approval, as the draft {held['draft_id']}"
            raise Denied("APPROVAL_REQUIRED", message, f"ask an approver to approve it: {held['look']}")
        return value

    async def stream(self, operation: str, arguments: JsonObject) -> EventStream:
        """Call an operation and return its stream."""
        reply = (await self._call(operation, arguments, once=False)).reply
        if not isinstance(reply, EventStream):
            raise TypeError(f"{operation} does not answer with a stream")
        return reply

    async def tenant(self) -> JsonValue:
        """Return the caller's tenant."""
        return (await self.principal("authenticate")).tenant

    async def principal(self, operation: str) -> Principal:
        """Authenticate the caller, once per request; `operation` is the first one that the request calls."""
        if self._principal is None:
            self._principal = await authenticated(self.gate, self.scope, self.headers, operation)
        return self._principal

    async def _call(self, operation: str, arguments: JsonObject, *, once: bool) -> AnsweredCall:
        outcome = await self.gate.call(
            Request(
                operation=operation,
                arguments=arguments,
                principal=await self.principal(operation),
                surface="rest",
                request_id=request_id_of(self.scope),
                idempotency_key=self.headers.get("idempotency-key") if once else None,
                remote=remote_of(self.scope),
                origin=HttpOrigin(self.scope),
            )
        )
        note_outcome(self.scope, outcome)
        if isinstance(outcome, RefusedCall):
            raise outcome.error
        return outcome
