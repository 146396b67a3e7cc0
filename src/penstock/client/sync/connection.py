"""Calls to a server that wait for their answer: every operation by name, with retries, pages and streams.

    with Connection("http://127.0.0.1:5151", key) as connection:
        connection.call("workflow.get", workflow_id="refund")

Above it: `Client`, which has a typed method for every operation. Below it: httpx2.

Made by `scripts/docs` from `asynchronous/connection.py`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
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

__all__ = ["Connection"]

T = TypeVar("T")


class Connection:
    """Calls by name. Threads may share it; close it, or use it in a `with` statement."""

    def __init__(
        self,
        server: str | None = None,
        key: str | None = None,
        *,
        timeout_seconds: float = 30.0,
        retries: int = RETRIES_DEFAULT,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        self._options = ClientOptions.of(server, key, timeout_seconds=timeout_seconds, retries=retries)
        self._http = httpx2.Client(**http_settings(self._options), transport=transport)

    @property
    def server(self) -> str:
        """The address of the server."""
        return self._options.server

    def call(self, operation: str, /, **arguments: Any) -> Any:
        """Call any operation by its name; the answer is the decoded JSON."""
        return self.invoke_any(operation, arguments, (Any,))

    def invoke(
        self, operation: str, arguments: Mapping[str, Any], result: type[T], *, idempotency_key: str | None = None
    ) -> T:
        """Call an operation; the answer is of the type `result`."""
        found: T = self.invoke_any(operation, arguments, (result,), idempotency_key=idempotency_key)
        return found

    def invoke_any(
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
        return decoded(found, self._answer(call), results)

    def pages(self, operation: str, arguments: Mapping[str, Any], page: type[T]) -> Iterator[T]:
        """Yield every page of a list, each requested when it is needed."""
        cursor = arguments.get("cursor")
        while True:
            found: Any = self.invoke(operation, {**arguments, "cursor": cursor}, page)
            yield found
            cursor = found.next_cursor
            if cursor is None:
                return

    def events(
        self, operation: str, arguments: Mapping[str, Any], *, timeout_seconds: float | None = None
    ) -> Iterator[StreamEvent]:
        """Yield the events of a stream to its end, over as many connections as it takes."""
        reader = StreamReader.of(
            find_operation(operation),
            arguments,
            self._options.retry_policy,
            time.monotonic,
            timeout_seconds,
        )
        while not reader.position.ended:
            error: CallFailed | None = None
            sent = True
            try:
                with self._open(reader) as response:
                    if not response.is_success:
                        raise error_of(response.status_code, response.headers, response.read())
                    for part in response.iter_bytes():
                        yield from reader.read(part)
                        if reader.is_over:
                            break
                    else:
                        error = reader.cut()
            except httpx2.TransportError as raised:
                error, sent = self._unreachable(raised), was_sent(raised)
            except CallFailed as raised:
                error = raised
            if not reader.position.ended:
                time.sleep(reader.delay_seconds(error, sent=sent))

    def _open(self, reader: StreamReader) -> Any:
        call = reader.next_call()
        timeout = httpx2.Timeout(self._options.timeout_seconds, read=reader.read_seconds)
        return self._http.stream(
            call.method, self._options.base_url + call.path, params=call.query, headers=call.headers, timeout=timeout
        )

    def _answer(self, call: PreparedCall) -> bytes:
        attempt = 0
        while True:
            attempt += 1
            sent = True
            try:
                response = self._http.request(
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
            time.sleep(delay)

    def _unreachable(self, raised: httpx2.TransportError) -> CallFailed:
        return unreachable(self.server, raised, timed_out=isinstance(raised, httpx2.TimeoutException))

    def close(self) -> None:
        """Close the connections to the server."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.server!r})"
