"""What resources need of a client: calls with a type for the answer, pages, streams.

Above it: the generated resources. Below it: nothing; the clients fit these.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Protocol, TypeVar

from penstock.client.events import StreamEvent

__all__ = ["AsyncCaller", "Caller"]

T = TypeVar("T")


class Caller(Protocol):
    """Makes calls and waits for them."""

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
        """Call an operation whose answer is the first of some types that it fits."""

    def pages(self, operation: str, arguments: Mapping[str, Any], page: type[T]) -> Iterator[T]:
        """Every page of a list, each asked for when it is needed."""

    def events(
        self, operation: str, arguments: Mapping[str, Any], *, timeout_seconds: float | None = None
    ) -> Iterator[StreamEvent]:
        """The events of a stream to its end, over as many connections as it takes."""


class AsyncCaller(Protocol):
    """Makes calls that are awaited."""

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
        """Call an operation whose answer is the first of some types that it fits."""

    def pages(self, operation: str, arguments: Mapping[str, Any], page: type[T]) -> AsyncIterator[T]:
        """Every page of a list, each asked for when it is needed."""

    def events(
        self, operation: str, arguments: Mapping[str, Any], *, timeout_seconds: float | None = None
    ) -> AsyncIterator[StreamEvent]:
        """The events of a stream to its end, over as many connections as it takes."""
