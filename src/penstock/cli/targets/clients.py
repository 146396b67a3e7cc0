"""A client that calls operations on a server, or through the gate on a file, with one interface.

Above it: the commands about operations and runs. Below it: the HTTP client; `local_client`, which is imported only for
a file because it brings most of the product.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol, assert_never

from penstock.base.json import JsonObject, JsonValue
from penstock.cli.targets.selection import FileTarget, ServerTarget, Target, connect
from penstock.cli.terminal.exits import CallHeld
from penstock.client.events import StreamEvent
from penstock.client.operations import Operation
from penstock.client.sync.connection import Connection

__all__ = ["OperationClient", "open_client"]

_LOCAL_CLIENT = "penstock.cli.targets.local_client"
_ON_GRAPHS = "graph."


class OperationClient(Protocol):
    """Calls operations."""

    def call(self, operation: str, arguments: JsonObject, *, idempotency_key: str | None = None) -> JsonValue:
        """The answer of a call."""

    def events(self, operation: str, arguments: JsonObject) -> Iterator[StreamEvent]:
        """The events of a stream."""


class _RemoteClient:
    """Calls a server over the network."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def call(self, operation: str, arguments: JsonObject, *, idempotency_key: str | None = None) -> JsonValue:
        answer: JsonValue = self._connection.invoke_any(operation, arguments, (Any,), idempotency_key=idempotency_key)
        return answer

    def events(self, operation: str, arguments: JsonObject) -> Iterator[StreamEvent]:
        return self._connection.events(operation, arguments)


@contextmanager
def _server_surface(target: ServerTarget, *, patient: bool) -> Iterator[OperationClient]:
    with connect(target, patient=patient) as connection:
        yield _RemoteClient(connection)


class _HeldTold:
    """Calls operations, and raises `CallHeld` for a call that waits for approval: no command has anything to show."""

    def __init__(self, client: OperationClient) -> None:
        self._client = client

    def call(self, operation: str, arguments: JsonObject, *, idempotency_key: str | None = None) -> JsonValue:
        answer = self._client.call(operation, arguments, idempotency_key=idempotency_key)
        held = CallHeld.found_in(operation, answer)
        if held is not None:
            raise held
        return answer

    def events(self, operation: str, arguments: JsonObject) -> Iterator[StreamEvent]:
        return self._client.events(operation, arguments)


@contextmanager
def open_client(target: Target, operation: Operation, *, create: bool = True) -> Iterator[OperationClient]:
    """A client for a target. It raises `CallHeld` for a call that waits for approval.

    With `create`, an operation that changes something creates a file that does not exist; one that reads does not.
    """
    with _open_target(target, operation, create=create) as client:
        yield _HeldTold(client)


def _open_target(target: Target, operation: Operation, *, create: bool) -> AbstractContextManager[OperationClient]:
    match target:
        case ServerTarget():
            return _server_surface(target, patient=operation.streams)
        case FileTarget(path=path):
            opened: AbstractContextManager[OperationClient] = importlib.import_module(_LOCAL_CLIENT).open_local_client(
                path,
                create=create and not operation.read_only,
                changes=not operation.read_only,
                changes_graphs=operation.name.startswith(_ON_GRAPHS) and not operation.read_only,
            )
            return opened
        case _:
            assert_never(target)
