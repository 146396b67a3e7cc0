"""Calls to a server that are awaited: every operation by name, with retries, pages and streams.

    async with AsyncConnection("http://127.0.0.1:5151", key) as connection:
        await connection.call("workflow.get", workflow_id="refund")

Above it: `AsyncClient`, which has a typed method for every operation. Below it: httpx2.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from secrets import token_hex
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx2

from penstock.client.calls import PreparedCall, decoded, prepare
from penstock.client.errors import CallFailed, error_of, unreachable
from penstock.client.events import StreamEvent
from penstock.client.operations import find_operation
from penstock.client.options import ClientOptions
from penstock.client.retries import RETRIES_DEFAULT
from penstock.client.stream_reader import StreamReader
from penstock.client.transports import http_settings, was_sent

__all__ = ["AsyncConnection"]

T = TypeVar("T")


class AsyncConnection:
    """Calls by name, for one event loop. Close it, or use it in an `async with` statement."""

    def __init__(
        self,
        server: str | None = None,
        key: str | None = None,
        *,
        timeout_seconds: float = 30.0,
        retries: int = RETRIES_DEFAULT,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._options = ClientOptions.of(server, key, timeout_seconds=timeout_seconds, retries=retries)
        self._http = httpx2.AsyncClient(**http_settings(self._options), transport=transport)

    @property
    def server(self) -> str:
        """The address of the server."""
        return self._options.server

    async def call(self, operation: str, /, **arguments: Any) -> Any:
        """Call any operation by its name; the answer is the decoded JSON."""
        return await self.invoke_any(operation, arguments, (Any,))

    async def invoke(
        self, operation: str, arguments: Mapping[str, Any], result: type[T], *, idempotency_key: str | None = None
    ) -> T:
        """Call an operation; the answer is of the type `result`."""
        found: T = await self.invoke_any(operation, arguments, (result,), idempotency_key=idempotency_key)
        return found

    async def invoke_any(
        self,
        operation: str,
        arguments: Mapping[str, Any],
        results: tuple[Any, ...],
        *,
        idempotency_key: str | None = None,
    ) -> Any:
        """Call an operation whose answer has one of several types; the first that fits is used."""
        found = find_operation(operation)
        call = prepare(found, arguments, idempotency_key=idempotency_key or token_hex(16))
        return decoded(found, await self._answer(call), results)

    async def pages(self, operation: str, arguments: Mapping[str, Any], page: type[T]) -> AsyncIterator[T]:
        """Yield every page of a list, each requested when it is needed."""
        cursor = arguments.get("cursor")
        while True:
            found: Any = await self.invoke(operation, {**arguments, "cursor": cursor}, page)
            yield found
            cursor = found.next_cursor
            if cursor is None:
                return

    async def events(
        self, operation: str, arguments: Mapping[str, Any], *, timeout_seconds: float | None = None
    ) -> AsyncIterator[StreamEvent]:
        """Yield the events of a stream to its end, over as many connections as it takes."""
        reader = StreamReader.of(
            find_operation(operation),
            arguments,
            self._options.retry_policy,
            asyncio.get_running_loop().time,
            timeout_seconds,
        )
        while not reader.position.ended:
            error: CallFailed | None = None
            sent = True
            try:
                async with self._open(reader) as response:
                    if not response.is_success:
                        raise error_of(response.status_code, response.headers, await response.aread())
                    async for part in response.aiter_bytes():
                        for event in reader.read(part):
                            yield event
                        if reader.is_over:
                            break
                    else:
                        error = reader.cut()
            except httpx2.TransportError as raised:
                error, sent = self._unreachable(raised), was_sent(raised)
            except CallFailed as raised:
                error = raised
            if not reader.position.ended:
                await asyncio.sleep(reader.delay_seconds(error, sent=sent))

    def _open(self, reader: StreamReader) -> Any:
        call = reader.next_call()
        timeout = httpx2.Timeout(self._options.timeout_seconds, read=reader.read_seconds)
        return self._http.stream(
            call.method, self._options.base_url + call.path, params=call.query, headers=call.headers, timeout=timeout
        )

    async def _answer(self, call: PreparedCall) -> bytes:
        attempt = 0
        while True:
            attempt += 1
            sent = True
            try:
                response = await self._http.request(
                    call.method,
                    self._options.base_url + call.path,
                    params=call.query,
                    headers=call.headers,
                    content=call.content,
                    timeout=self._options.timeout_seconds + call.wait_seconds,
                )
                if response.is_success:
                    return response.content
                error = error_of(response.status_code, response.headers, response.content)
            except httpx2.TransportError as raised:
                error, sent = self._unreachable(raised), was_sent(raised)
            delay = self._options.retry_policy.delay_seconds(error, attempt, repeatable=call.repeatable, sent=sent)
            if delay is None:
                raise error
            await asyncio.sleep(delay)

    def _unreachable(self, raised: httpx2.TransportError) -> CallFailed:
        return unreachable(self.server, raised, timed_out=isinstance(raised, httpx2.TimeoutException))

    async def close(self) -> None:
        """Close the connections to the server."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.server!r})"
