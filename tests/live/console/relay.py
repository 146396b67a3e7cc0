"""A relay between a browser and a server, whose connections can be cut, and whose streams can be muted.

Above it: tests of what a page says when its stream fails. Below it: sockets and threads.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

__all__ = ["Relay", "relaying"]

_STREAM = b"GET /console/events"


class Relay:
    """Passes bytes on, both ways, until told otherwise."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self.is_mute = False
        """Whether what comes on streams is dropped, as a proxy does that waits for the end of an answer."""
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def cut(self) -> None:
        """End all connections; new ones are taken."""
        with self._lock:
            ending, self._open = self._open, set()
        for end in ending:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listening.close()
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                far = socket.create_connection(("127.0.0.1", self._port))
                streams = threading.Event()
                with self._lock:
                    self._open |= {near, far}
                threading.Thread(target=self._ask, args=(near, far, streams), daemon=True).start()
                threading.Thread(target=self._answer, args=(far, near, streams), daemon=True).start()

    def _ask(self, near: socket.socket, far: socket.socket, streams: threading.Event) -> None:
        with suppress(OSError):
            while part := near.recv(65_536):
                if _STREAM in part:
                    streams.set()
                far.sendall(part)
        _end(near, far)

    def _answer(self, far: socket.socket, near: socket.socket, streams: threading.Event) -> None:
        with suppress(OSError):
            while part := far.recv(65_536):
                if not (self.is_mute and streams.is_set()):
                    near.sendall(part)
        _end(near, far)


def _end(*ends: socket.socket) -> None:
    for end in ends:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()


@contextmanager
def relaying(port: int) -> Iterator[Relay]:
    """A relay to a port of this machine, until the block ends."""
    relay = Relay(port)
    try:
        yield relay
    finally:
        relay.close()
