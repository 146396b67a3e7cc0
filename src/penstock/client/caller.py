"""The protocols between resources and clients: calls with a type for the answer, pages, streams.

Above it: the generated resources. Below it: nothing; the clients satisfy these protocols.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Protocol, TypeVar

from penstock.client.events import StreamEvent

__all__ = ["AsyncCaller", "Caller"]

T = TypeVar("T")


class Caller(Protocol):
    """Makes calls synchronously."""

    def invoke(
        self, operation: str, arguments: Mapping[str, Any], result: type[T], *, idempotency_key: str | None = None
    ) -> T:
        """Call an operation; the answer is of the type `result`."""

    def invoke_any(
        self,
        operation: str,
        arguments: Mapping[str, Any],
        results: tuple[Any, ...],
        *,
        idempotency_key: str | None = None,
    ) -> Any:
        """Call an operation whose answer has one of several types; the first that fits is used."""

    def pages(self, operation: str, arguments: Mapping[str, Any], page: type[T]) -> Iterator[T]:
        """Yield every page of a list, each requested when it is needed."""

    def events(
        self, operation: str, arguments: Mapping[str, Any], *, timeout_seconds: float | None = None
    ) -> Iterator[StreamEvent]:
        """Yield the events of a stream to its end, over as many connections as it takes."""


class AsyncCaller(Protocol):
    """Makes calls asynchronously."""

    async def invoke(
        self, operation: str, arguments: Mapping[str, Any], result: type[T], *, idempotency_key: str | None = None
    ) -> T:
        """Call an operation; the answer is of the type `result`."""

    async def invoke_any(
        self,
        operation: str,
        arguments: Mapping[str, Any],
        results: tuple[Any, ...],
        *,
        idempotency_key: str | None = None,
    ) -> Any:
        """Call an operation whose answer has one of several types; the first that fits is used."""

    def pages(self, operation: str, arguments: Mapping[str, Any], page: type[T]) -> AsyncIterator[T]:
        """Yield every page of a list, each requested when it is needed."""

    def events(
        self, operation: str, arguments: Mapping[str, Any], *, timeout_seconds: float | None = None
    ) -> AsyncIterator[StreamEvent]:
        """Yield the events of a stream to its end, over as many connections as it takes."""
