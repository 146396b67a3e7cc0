"""Readers of server-sent events on plain sockets."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from tests.live.rest.servers import LiveServer
from tests.live.rest.wire import request_head
from tests.waiting import SECONDS_MAX

__all__ = ["Event", "Reader", "following"]


class Event(NamedTuple):
    """One event; a comment has no name."""

    name: str
    data: Any
    id: str | None


class Reader:
    """Reads the events of one connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._buffer = b""
        self.head = self._until(b"\r\n\r\n").decode("latin-1")
        self.status = int(self.head.split(" ")[1])
        self._text = b""

    def _until(self, end: bytes) -> bytes:
        while end not in self._buffer:
            part = self.connection.recv(65_536)
            if not part:
                raise EOFError
            self._buffer += part
        found, _, self._buffer = self._buffer.partition(end)
        return found

    def _chunk(self) -> bytes:
        size = int(self._until(b"\r\n"), 16)
        if size == 0:
            raise EOFError
        while len(self._buffer) < size + 2:
            part = self.connection.recv(65_536)
            if not part:
                raise EOFError
            self._buffer += part
        found, self._buffer = self._buffer[:size], self._buffer[size + 2 :]
        return found

    def frames(self) -> Iterator[str]:
        """Every frame until the stream ends, comments and `retry` too."""
        while True:
            while b"\n\n" not in self._text:
                try:
                    self._text += self._chunk()
                except (EOFError, ConnectionResetError):
                    return
            frame, _, self._text = self._text.partition(b"\n\n")
            yield frame.decode("utf-8")

    def events(self) -> Iterator[Event]:
        """Every event until the stream ends."""
        for frame in self.frames():
            fields = dict(line.partition(": ")[::2] for line in frame.split("\n") if not line.startswith(":"))
            if "data" in fields:
                yield Event(fields.get("event", "message"), json.loads(fields["data"]), fields.get("id"))


@contextmanager
def following(
    server: LiveServer, execution_id: str, *, last: str | None = None, key: str | None = None, query: str = ""
) -> Iterator[Reader]:
    """A reader of the stream of an execution."""
    more = [] if last is None else [f"Last-Event-ID: {last}"]
    path = f"/api/v0/executions/{execution_id}/stream{query}"
    with socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS_MAX) as connection:
        connection.sendall(request_head("GET", path, key or server.key, *more, close=False))
        yield Reader(connection)
