"""One request on the A2A wire, and the calls of operations that answer it. Nothing is decided here.

Above it: `endpoint`, `methods`. Below it: the gate.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
from starlette.types import Receive, Scope, Send

from penstock.asgi import HttpOrigin, remote_of, request_id_of
from penstock.base.json import JsonObject
from penstock.operations.catalogue.capability import EventStream, Reply
from penstock.operations.gate.context import Principal, Request
from penstock.operations.gate.pipeline import Gate, RefusedCall
from penstock.rest.endpoints import authenticated, note_outcome
from penstock.rest.requests import headers_of, read_body, refuse_strange_path

__all__ = ["Exchange"]


@dataclass(slots=True, kw_only=True)
class Exchange:
    """A request, and what is needed to answer it."""

    gate: Gate
    scope: Scope
    receive: Receive
    max_body_bytes: int
    headers: dict[str, str]
    agent_id: str = ""
    legacy: bool = False
    """Whether the client speaks version 0.3."""
    _principal: Principal | None = field(default=None)

    @classmethod
    def of(cls, gate: Gate, ends: tuple[Scope, Receive, Send], *, max_body_bytes: int) -> Exchange:
        """Build the exchange of a request; `ends` are the three arguments of an ASGI application."""
        scope, receive, _ = ends
        refuse_strange_path(scope)
        return cls(
            gate=gate,
            scope=scope,
            receive=receive,
            max_body_bytes=max_body_bytes,
            headers=headers_of(scope),
            agent_id=str(scope.get("path_params", {}).get("agent_id", "")),
        )

    async def body(self) -> bytes:
        """Read the body. Nothing that an unknown client sends is read."""
        await self.principal()
        return await read_body(self.receive, self.scope, self.headers, self.max_body_bytes)

    async def principal(self) -> Principal:
        """Authenticate the caller, once per request."""
        if self._principal is None:
            self._principal = await authenticated(self.gate, self.scope, self.headers, "authenticate")
        return self._principal

    async def call(self, operation: str, arguments: JsonObject, *, key: str | None = None) -> Any:
        """Call an operation and return its answer as JSON; raise its refusal. `key` makes it happen once."""
        answer = await self._answer(operation, arguments, key, streams=False)
        if isinstance(answer, EventStream):
            raise TypeError(f"{operation} answers with a stream")
        return answer

    async def begun(self, operation: str, arguments: JsonObject, *, key: str | None = None) -> EventStream | Any:
        """Call an operation that answers with events; one that was called before with this key answers as JSON."""
        return await self._answer(operation, arguments, key, streams=True)

    async def _answer(self, operation: str, arguments: JsonObject, key: str | None, *, streams: bool) -> Any:
        outcome = await self.gate.call(
            Request(
                operation=operation,
                arguments=arguments,
                principal=await self.principal(),
                surface="rest",
                request_id=request_id_of(self.scope),
                idempotency_key=key,
                remote=remote_of(self.scope),
                origin=HttpOrigin(self.scope),
                streams=streams,
            )
        )
        note_outcome(self.scope, outcome)
        if isinstance(outcome, RefusedCall):
            raise outcome.error
        reply = outcome.reply
        return msgspec.to_builtins(reply.value) if isinstance(reply, Reply) else reply
