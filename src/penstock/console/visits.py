"""A visit of a page: who visits, what they ask for, and calls of operations in their name; and what a page answers.

Above it: `surface`, the pages. Below it: the gate.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeAlias

import msgspec

from penstock.asgi import HttpOrigin
from penstock.asgi.forms import Fields
from penstock.base.errors import Rejected
from penstock.base.json import JsonObject
from penstock.operations.catalogue.capability import EventStream, Reply
from penstock.operations.gate.context import Principal, Request
from penstock.operations.gate.pipeline import Gate, RefusedCall

__all__ = ["Download", "Page", "Redirect", "Shown", "Text", "Visit"]


class Page(NamedTuple):
    """A page that is shown: its template, and what it is given."""

    template: str
    given: dict[str, Any]
    status: int = 200


class Redirect(NamedTuple):
    """Another page that the browser goes to, after a form was sent."""

    location: str


class Text(NamedTuple):
    """A text on its own, such as a large value; a file to save if it has a name."""

    text: str
    file_name: str | None = None


class Download(NamedTuple):
    """A file of any length, sent while it is generated. The sender must close it."""

    chunks: AsyncGenerator[bytes, None]
    file_name: str


Shown: TypeAlias = Page | Redirect | Text | Download


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One request of somebody who is signed in."""

    gate: Gate
    principal: Principal
    path: dict[str, str]
    query: Fields
    form: Fields | None
    """The fields of the form that was sent; None if the request is for a page."""
    form_token: str
    session_id: str
    request_id: str
    remote: str | None
    origin: HttpOrigin
    address: str
    """The address by which the visitor reached the server, without a path."""
    trace_url: str | None = None
    """The page of a trace in the operator's tracing system, with `{trace_id}` in it."""

    @property
    def now(self) -> datetime:
        """The present time, in UTC."""
        return datetime.fromtimestamp(self.gate.services.clock.now_ms() / 1000, UTC)

    async def call(self, operation: str, /, **arguments: Any) -> Any:
        """Call an operation as the visitor; return its answer as plain data. Refusals are raised.

        Arguments with the value `None` are left out.
        """
        return await self.call_with(operation, {name: value for name, value in arguments.items() if value is not None})

    async def call_with(self, operation: str, arguments: JsonObject) -> Any:
        """Call an operation as the visitor with exactly these arguments; None means null."""
        reply = await self._answered(operation, arguments)
        if isinstance(reply, EventStream):
            raise Rejected("STREAM_NOT_SHOWN", "a page cannot show a stream")
        return msgspec.to_builtins(reply.value)

    async def stream(self, operation: str, **arguments: Any) -> EventStream:
        """Open a stream as the visitor. The sender must close it."""
        given = {name: value for name, value in arguments.items() if value is not None}
        reply = await self._answered(operation, given)
        if not isinstance(reply, EventStream):
            raise Rejected("STREAM_EXPECTED", f"{operation} does not answer with a stream")
        return reply

    async def _answered(self, operation: str, arguments: JsonObject) -> Reply[Any] | EventStream:
        outcome = await self.gate.call(
            Request(
                operation=operation,
                arguments=arguments,
                principal=self.principal,
                surface="console",
                request_id=self.request_id,
                from_person=True,
                remote=self.remote,
                origin=self.origin,
            )
        )
        if isinstance(outcome, RefusedCall):
            raise outcome.error
        return outcome.reply
