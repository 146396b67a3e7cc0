"""A visit of a page: who visits, what they ask for, and calls of operations in their name; and what a page answers.

Above it: `surface`, the pages. Below it: the gate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import msgspec

from penstock.asgi import HttpOrigin
from penstock.base.errors import Rejected
from penstock.base.json import JsonObject
from penstock.console.forms import Fields
from penstock.operations.catalogue.capability import EventStream, Reply
from penstock.operations.gate.context import Principal, Request
from penstock.operations.gate.pipeline import Gate, RefusedCall

__all__ = ["Page", "Redirect", "Shown", "Text", "Visit"]


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


Shown: TypeAlias = Page | Redirect | Text


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One request of somebody who is signed in."""

    gate: Gate
    principal: Principal
    path: dict[str, str]
    query: Fields
    form: Fields | None
    """The fields of the form that was sent; None if a page is asked for."""
    form_token: str
    request_id: str
    remote: str | None
    origin: HttpOrigin
    address: str
    """The address by which the visitor reached the server, without a path."""

    async def call(self, operation: str, /, **arguments: Any) -> Any:
        """Call an operation as whoever visits; return its answer as plain data. Refusals are raised.

        Arguments that are None are left out.
        """
        reply = await self._answered(operation, arguments)
        if isinstance(reply, EventStream):
            raise Rejected("STREAM_NOT_SHOWN", "a page cannot show a stream")
        return msgspec.to_builtins(reply.value)

    async def stream(self, operation: str, **arguments: Any) -> EventStream:
        """Open a stream as whoever visits. Whoever sends it must close it."""
        reply = await self._answered(operation, arguments)
        if not isinstance(reply, EventStream):
            raise Rejected("STREAM_EXPECTED", f"{operation} answers with no stream")
        return reply

    async def _answered(self, operation: str, arguments: dict[str, Any]) -> Reply[Any] | EventStream:
        given: JsonObject = {name: value for name, value in arguments.items() if value is not None}
        outcome = await self.gate.call(
            Request(
                operation=operation,
                arguments=given,
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
