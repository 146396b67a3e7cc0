"""One request of the agent profile, and the calls of operations that answer it. Nothing is decided here."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import msgspec
from starlette.types import Receive, Scope, Send

from penstock.asgi import HttpOrigin, remote_of, request_id_of
from penstock.base import limits
from penstock.base.errors import Rejected
from penstock.base.json import JsonObject
from penstock.operations.catalogue.capability import Reply
from penstock.operations.gate.context import Principal, Request
from penstock.operations.gate.pipeline import AnsweredCall, Gate, Outcome, RefusedCall
from penstock.operations.gate.policy_stage import Standpoint
from penstock.rest.endpoints import authenticated, note_outcome
from penstock.rest.requests import headers_of, query_of, read_body, refuse_strange_path

__all__ = ["Exchange"]

_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,100}")
_JSON_TYPES = ("application/json", "")


@dataclass(slots=True, kw_only=True)
class Exchange:
    """A request, and what is needed to answer it."""

    gate: Gate
    scope: Scope
    receive: Receive
    send: Send
    max_body_bytes: int
    headers: dict[str, str]
    request_id: str
    """The id that the caller gave the request in its body, or else the one of HTTP."""
    _principal: Principal | None = field(default=None)

    @classmethod
    def of(cls, gate: Gate, ends: tuple[Scope, Receive, Send], *, max_body_bytes: int) -> Exchange:
        """Build the exchange of a request; `ends` are the three arguments of an ASGI application."""
        scope, receive, send = ends
        refuse_strange_path(scope)
        return cls(
            gate=gate,
            scope=scope,
            receive=receive,
            send=send,
            max_body_bytes=max_body_bytes,
            headers=headers_of(scope),
            request_id=request_id_of(scope),
        )

    def named(self, parameter: str) -> str:
        """Return a path parameter."""
        found: str = self.scope["path_params"][parameter]
        return found

    def query(self, *known: str) -> dict[str, str]:
        """Return the query; refuse parameters that are not known, and those that stand there twice."""
        found: dict[str, str] = {}
        for name, value in query_of(self.scope):
            if name not in known:
                hint = f"known are: {', '.join(known) or 'none'}"
                raise Rejected("UNKNOWN_PARAMETER", f"there is no query parameter {name[:64]!r}", hint)
            if name in found:
                raise Rejected("REPEATED_PARAMETER", f"the query parameter {name} is given twice", "send it once")
            found[name] = value
        return found

    async def body(self, *, required: bool = True) -> JsonObject:
        """Read the body: an object in JSON."""
        await self.principal()  # nothing that an unknown client sends is read
        content = await read_body(self.receive, self.scope, self.headers, self.max_body_bytes)
        if not content:
            if required:
                raise Rejected("MALFORMED_REQUEST", "the request has no body", "send a JSON object")
            return {}
        media_type = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type not in _JSON_TYPES and not media_type.endswith("+json"):
            message = f"{media_type[:80]!r} is not a supported media type"
            raise Rejected("UNSUPPORTED_MEDIA_TYPE", message, "send application/json")
        try:
            value = msgspec.json.decode(content)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]
            raise Rejected("MALFORMED_JSON", f"the body cannot be read: {reason}", "send JSON in UTF-8") from None
        if not isinstance(value, dict):
            raise Rejected("MALFORMED_REQUEST", "the body must be a JSON object", "send an object")
        return value

    def identified(self, request_id: object) -> None:
        """Take over the request id that the body names, if it can be one."""
        if request_id is None:
            return
        if not isinstance(request_id, str) or not _REQUEST_ID.fullmatch(request_id):
            message = "`requestId` must be 1 to 100 letters, digits, dots, colons, dashes or underscores"
            raise Rejected("MALFORMED_REQUEST", message, "send such a text, or omit it")
        self.request_id = request_id

    @property
    def standpoint(self) -> Standpoint:
        """From where the caller looks at lists."""
        return Standpoint(surface="rest", remote=remote_of(self.scope))

    async def principal(self, operation: str = "authenticate") -> Principal:
        """Authenticate the caller, once per request; `operation` is the first one that the request calls."""
        if self._principal is None:
            self._principal = await authenticated(self.gate, self.scope, self.headers, operation)
        return self._principal

    async def call(self, operation: str, arguments: JsonObject, **more: Any) -> Any:
        """Call an operation and return its answer as JSON; raise its refusal."""
        outcome = await self.outcome(operation, arguments, **more)
        if isinstance(outcome, RefusedCall):
            raise outcome.error
        return self.value_of(outcome)

    async def scopes_of(self, action: str) -> tuple[str, ...]:
        """Return the scopes that an action needs; none if it is not there any more."""
        tenant = (await self.principal()).tenant
        found = self.gate.catalogue.get(action) or await self.gate.exposed.find(tenant, action)
        return () if found is None else found.governance.scopes

    async def pages(self, operation: str, arguments: JsonObject | None = None) -> list[Any]:
        """Return the items of every page of a list."""
        found: list[Any] = []
        cursor = None
        while True:
            given: JsonObject = {**(arguments or {}), "limit": limits.PAGE_LIMIT_MAX}
            page = await self.call(operation, given if cursor is None else {**given, "cursor": cursor})
            found += page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                return found

    def value_of(self, answered: AnsweredCall) -> Any:
        """Return the answer of a call as JSON."""
        if not isinstance(answered.reply, Reply):
            raise TypeError(f"{answered.capability.name} answers with a stream")
        return msgspec.to_builtins(answered.reply.value)

    async def outcome(self, operation: str, arguments: JsonObject, **more: Any) -> Outcome:
        """Call an operation; `more` are further members of the gate's request."""
        outcome = await self.gate.call(
            Request(
                operation=operation,
                arguments=arguments,
                principal=await self.principal(operation),
                surface="rest",
                request_id=self.request_id,
                remote=remote_of(self.scope),
                origin=HttpOrigin(self.scope),
                **more,
            )
        )
        note_outcome(self.scope, outcome)
        return outcome
