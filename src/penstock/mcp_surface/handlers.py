"""Common parts of all method handlers: the caller, the client's capabilities, and errors in the form of the protocol.

A package with methods has a module `methods` with a class; its `handlers()` lists a `Handler` for each method, and
`server` registers them with the SDK. Handlers translate between the SDK's types and our own, and decide nothing.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, ValidationError

from penstock.base import limits
from penstock.base.errors import LimitExceeded, PenstockError
from penstock.base.json import JsonObject
from penstock.mcp_surface.audit import reason_of
from penstock.mcp_surface.callers import Caller, ProtocolFault
from penstock.mcp_surface.endpoint import not_in_flight
from penstock.mcp_surface.eras.clients import client_of
from penstock.mcp_surface.options import McpOptions
from penstock.mcp_surface.questions.client_questions import ClientQuestion
from penstock.mcp_surface.questions.clients import Client, ClientAnswer
from penstock.mcp_surface.rates import error_data, note_rate_limit
from penstock.operations.catalogue.errors import INTERNAL_ERROR, mapping_of
from penstock.operations.gate.pipeline import Gate

__all__ = [
    "COMPLETE",
    "CallerOf",
    "Context",
    "Handler",
    "Requests",
    "in_pages",
    "is_on_record",
    "known_error",
    "one_page",
    "reason_for",
]

Context: TypeAlias = ServerRequestContext[Any, Any]
CallerOf: TypeAlias = Callable[[Context], Caller]
Handle: TypeAlias = Callable[[Context, Any], Awaitable[Any]]
_AskNow: TypeAlias = Callable[[ClientQuestion], Awaitable[ClientAnswer | None]]

# Lists depend on the caller, and change when somebody changes a workflow.
COMPLETE: JsonObject = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
"""The members that every list has: it is complete, and must not be cached."""


@dataclass(frozen=True, slots=True)
class Handler:
    """A method, the type of its parameters, and its handler; errors become errors of the protocol."""

    method: str
    params: type[BaseModel]
    handle: Handle

    async def __call__(self, context: Context, params: Any) -> Any:
        """Answer one request."""
        try:
            return await self.handle(context, params)
        except ProtocolFault as fault:
            known = _KnownError(code=fault.code, message=fault.message, data=fault.data)
            known.reason, known.on_record = fault.reason, fault.on_record
            raise known from None
        except PenstockError as error:
            if context.request is not None:
                note_rate_limit(context.request.scope["state"], error)
            raise known_error(error) from None


class _KnownError(MCPError):
    """A protocol error that carries one of our reason codes."""

    reason: str | None = None
    on_record = False


def known_error(error: PenstockError) -> MCPError:
    """Return the protocol error for one of our errors."""
    known = _KnownError(code=mapping_of(error).json_rpc, message=error.message, data=error_data(error))
    known.reason, known.on_record = error.code, error.on_record
    return known


def is_on_record(error: Exception) -> bool:
    """Return whether the audit log already has the request that ended with this error."""
    return isinstance(error, _KnownError) and error.on_record


def reason_for(error: Exception) -> str:
    """Return our reason code for an error with which the SDK answers a request."""
    if isinstance(error, _KnownError) and error.reason is not None:
        return error.reason
    if isinstance(error, ValidationError):
        return reason_of(types.INVALID_PARAMS)
    return reason_of(error.error.code) if isinstance(error, MCPError) else INTERNAL_ERROR


def one_page(handle: Handle) -> Handle:
    """Wrap a list handler that returns everything in one page, because most clients read only the first page.

    A cursor is refused.
    """

    async def checked(context: Context, params: types.PaginatedRequestParams | None) -> Any:
        if params is not None and params.cursor:
            message = "Invalid cursor: this list is one page; ask for it without a cursor"
            raise MCPError(code=types.INVALID_PARAMS, message=message, data={"cursor": params.cursor[:200]})
        return await handle(context, params)

    return checked


def in_pages(handle: Handle, member: str, key: str) -> Handle:
    """Wrap a list handler whose entries are sorted by a key: long lists go on after the last entry of a page.

    The cursor is the key of that entry, so a list that changes between two pages repeats and skips nothing else.
    """

    async def page(context: Context, params: types.PaginatedRequestParams | None) -> Any:
        after = None if params is None or not params.cursor else _after(params.cursor)
        found = await handle(context, params)
        items = [item for item in found[member] if after is None or str(item[key]) > after]
        if len(items) <= limits.MCP_RESOURCES_PAGE:
            return {**found, member: items}
        shown = items[: limits.MCP_RESOURCES_PAGE]
        last = base64.urlsafe_b64encode(str(shown[-1][key]).encode()).decode()
        return {**found, member: shown, "nextCursor": last}

    return page


def _after(cursor: str) -> str:
    try:
        return base64.b64decode(cursor, altchars=b"-_", validate=True).decode()
    except ValueError:
        message = "Invalid cursor: send the nextCursor of the page before, or none for the first page"
        raise MCPError(code=types.INVALID_PARAMS, message=message, data={"cursor": cursor[:200]}) from None


@dataclass(frozen=True, slots=True)
class Requests:
    """Determines who sent a request, and what their client can do while it is answered."""

    gate: Gate
    options: McpOptions
    caller_of: CallerOf

    def client(self, context: Context, params: types.InputResponseRequestParams) -> Client:
        """Return what the client can do during this request, as far as the operator allows it."""
        client = client_of(context, params)
        if client.ask is not None:
            client = replace(client, ask=self._bounded(context, client.ask))
        return client if self.options.step_logs else replace(client, log=None)

    def _bounded(self, context: Context, ask: _AskNow) -> _AskNow:
        """Limit `ask` to the time that questions stay open, and count the question as an open stream of the caller."""
        services, owner = self.gate.services, self.caller_of(context).principal
        streams, chosen = services.open_streams, services.limits

        async def asked(question: ClientQuestion) -> ClientAnswer | None:
            try:
                streams.take(owner, at_most=chosen.streams_max, of_one=chosen.streams_per_key)
            except LimitExceeded:
                return None
            try:
                with not_in_flight(context.request.scope) if context.request is not None else nullcontext():
                    return await asyncio.wait_for(ask(question), limits.MCP_QUESTION_SECONDS_MAX)
            except TimeoutError:
                return None
            finally:
                streams.give_back(owner)

        return asked
