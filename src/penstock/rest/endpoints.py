"""One ASGI endpoint per path: read the request, call the gate, write the response.

Nothing is decided here: the gate gets the arguments as they arrived, and its outcome is rendered. Bodies are read up to
a limit. A stream is sent as server-sent events until it ends, or until its reader disconnects or is too slow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import assert_never

from starlette.types import Receive, Scope, Send

from penstock.asgi import AUDITED, Headers, HttpOrigin, remote_of, request_id_of, send_body
from penstock.base.encoding import SafeEncoder
from penstock.base.errors import Denied, LimitExceeded, PenstockError
from penstock.operations.catalogue.capability import Capability, EventStream, Reply
from penstock.operations.gate.context import Credentials, Principal, Request, WriteIntent, intent_of
from penstock.operations.gate.pipeline import ANONYMOUS, AnsweredCall, Gate, Outcome, RefusedCall
from penstock.rest.arguments import INTENT_HEADERS, ArgumentReader
from penstock.rest.requests import bearer_of, headers_of, query_of, read_body, refuse_strange_path
from penstock.rest.responses import (
    etag_matches,
    method_not_allowed,
    send_options,
    send_problem,
    send_response,
)
from penstock.rest.sse import STREAM_HEADERS, close_stream, send_events

__all__ = ["ConcurrencyLimit", "Endpoint", "admit_stranger", "authenticated", "note_outcome"]

_encode = SafeEncoder().encode
_INTENTS = tuple((name, header.lower()) for name, header in INTENT_HEADERS.items())
_JSON = (b"content-type", b"application/json")


@dataclass(slots=True)
class ConcurrencyLimit:
    """Counts the requests in flight and limits them."""

    maximum: int
    now: int = 0

    def enter(self) -> None:
        """Take a slot, or raise `LimitExceeded` if none is free."""
        if self.now >= self.maximum:
            raise LimitExceeded(
                "TOO_MANY_REQUESTS_IN_FLIGHT",
                f"the server answers at most {self.maximum} requests at once",
                "try again in a second",
                {"retry_after_seconds": 1},
            )
        self.now += 1

    def leave(self) -> None:
        """Release a slot."""
        self.now -= 1


def note_outcome(scope: Scope, outcome: Outcome) -> None:
    """Put the outcome into the request state, where the access log and the audit find it."""
    state = scope["state"]
    if outcome.capability is not None:
        state["operation"] = outcome.capability.name
    if isinstance(outcome, RefusedCall):
        state[AUDITED] = True


async def authenticated(gate: Gate, scope: Scope, headers: Mapping[str, str], operation: str) -> Principal:
    """Authenticate a request and note the principal for the log.

    `operation` is the first one that the request will call.
    """
    state = scope["state"]
    try:
        state["principal"] = principal = await gate.authenticate(
            Credentials(bearer=bearer_of(headers)),
            surface="rest",
            request_id=request_id_of(scope),
            operation=operation,
            remote=remote_of(scope),
            origin=HttpOrigin(scope),
        )
    except (Denied, LimitExceeded):
        state["principal"], state[AUDITED] = ANONYMOUS, True
        raise
    return principal


def admit_stranger(gate: Gate, scope: Scope, *, count: bool = True) -> None:
    """Refuse a request without credentials, for something that needs none, if its sender sends too many of them."""
    if any(name == b"authorization" for name, _ in scope["headers"]):
        return
    remote = remote_of(scope)
    gate.peers.check(remote)
    if count:
        gate.peers.count(remote)


@dataclass(slots=True, kw_only=True)
class Endpoint:
    """The operations at one path, by HTTP method."""

    gate: Gate
    base_path: str
    max_body_bytes: int
    busy: ConcurrencyLimit
    operations: dict[str, Capability] = field(default_factory=dict)
    readers: dict[str, ArgumentReader] = field(default_factory=dict)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["method"] == "OPTIONS":
            await send_options(send, self._allowed())
            return
        held = False
        try:
            try:
                self.busy.enter()
                held = True
                headers = headers_of(scope)
                outcome = await self._outcome(scope, receive, headers)
            except PenstockError as error:
                wanted = self.operations.get("GET" if scope["method"] == "HEAD" else scope["method"])
                if wanted is not None:
                    scope["state"]["operation"] = wanted.name
                await send_problem(send, scope, error)
                return
            if isinstance(outcome, AnsweredCall) and isinstance(outcome.reply, EventStream):
                # A stream may last for hours, and has limits of its own.
                self.busy.leave()
                held = False
            await self._render(outcome, scope, receive, send, headers)
        finally:
            if held:
                self.busy.leave()

    def _allowed(self) -> str:
        return ", ".join(sorted({*self.operations, "OPTIONS", *(["HEAD"] if "GET" in self.operations else [])}))

    async def _outcome(self, scope: Scope, receive: Receive, headers: Mapping[str, str]) -> Outcome:
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        capability = self.operations.get(method)
        if capability is None:
            raise method_not_allowed(scope["method"], self._allowed())
        refuse_strange_path(scope)
        # Authenticate first: nothing that an unknown client sends is read.
        principal = await authenticated(self.gate, scope, headers, capability.name)
        reader = self._reader(method, capability)
        body = await read_body(receive, scope, headers, self.max_body_bytes) if reader.has_body else b""
        outcome = await self.gate.call(
            Request(
                operation=capability.name,
                arguments=reader.read(scope["path_params"], query_of(scope), headers, body),
                principal=principal,
                surface="rest",
                request_id=request_id_of(scope),
                idempotency_key=headers.get("idempotency-key"),
                intent=_intent(headers),
                remote=remote_of(scope),
                origin=HttpOrigin(scope),
                streams=capability.route is not None and capability.route.streams and _wants_events(headers),
            )
        )
        note_outcome(scope, outcome)
        return outcome

    def _reader(self, method: str, capability: Capability) -> ArgumentReader:
        """Build the reader on first use: it needs the schema, and building all of them would slow down the start."""
        reader = self.readers.get(method)
        if reader is None:
            if capability.route is None:
                raise ValueError(f"{capability.name} has no route")
            reader = self.readers[method] = ArgumentReader.of(capability, capability.route)
        return reader

    async def _render(
        self, outcome: Outcome, scope: Scope, receive: Receive, send: Send, headers: Mapping[str, str]
    ) -> None:
        match outcome:
            case RefusedCall(error=error):
                await send_problem(send, scope, error)
            case AnsweredCall(reply=reply, capability=capability):
                if not isinstance(reply, EventStream):
                    await self._reply(reply, capability, send, headers, replayed=outcome.replayed)
                elif scope["method"] == "HEAD":
                    await close_stream(reply)
                    await send_body(send, 200, list(STREAM_HEADERS))
                else:
                    scope["state"]["stream"] = True
                    await send_events(reply, receive, send, self.gate.services.telemetry)
            case _:
                assert_never(outcome)

    async def _reply(
        self, reply: Reply[object], capability: Capability, send: Send, asked: Mapping[str, str], *, replayed: bool
    ) -> None:
        headers: Headers = [_JSON]
        if reply.etag is not None:
            headers.append((b"etag", f'"{reply.etag}"'.encode()))
            if capability.annotations.read_only and etag_matches(asked.get("if-none-match", ""), reply.etag):
                await send_body(send, 304, headers[1:])
                return
        if reply.location is not None:
            headers.append((b"location", (self.base_path + reply.location).encode()))
        if replayed:
            headers.append((b"idempotency-replayed", b"true"))
        status = reply.status or (capability.route.status if capability.route else 200)
        await send_response(send, status, _encode(reply.value), headers)


def _wants_events(headers: Mapping[str, str]) -> bool:
    """Whether a request asks for events, and for nothing else that could be sent."""
    accepted = [part.partition(";")[0].strip().lower() for part in headers.get("accept", "").split(",")]
    return "text/event-stream" in accepted and "application/json" not in accepted


def _intent(headers: Mapping[str, str]) -> WriteIntent | None:
    """Return what the headers say about a change beside its arguments; nearly no request has any of them."""
    said = {name: headers[header] for name, header in _INTENTS if header in headers}
    return intent_of(said) if said else None
