"""Bytes on a socket: requests that no HTTP client would send, and whatever comes back."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from contextlib import suppress

from tests.live.rest.servers import Answer
from tests.waiting import SECONDS_MAX

__all__ = ["exchange", "read_answer", "request_head"]


def request_head(method: str, path: str, key: str | None, *more: str, close: bool = True) -> bytes:
    """The head of a request; `more` are header lines."""
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1"]
    if key is not None:
        lines.append(f"Authorization: Bearer {key}")
    if close:
        lines.append("Connection: close")
    return "\r\n".join([*lines, *more, "", ""]).encode("utf-8", "surrogateescape")


def read_answer(connection: socket.socket) -> Answer | None:
    """The next answer; None when the server hung up without one."""
    buffer = b""
    while b"\r\n\r\n" not in buffer:
        part = connection.recv(65_536)
        if not part:
            assert buffer == b"", f"half an answer: {buffer!r}"
            return None
        buffer += part
    head, _, rest = buffer.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    length = int(headers.get("content-length", "0"))
    while len(rest) < length:
        part = connection.recv(65_536)
        assert part, "the body is cut off"
        rest += part
    return Answer(int(first.split(" ")[1]), headers, rest[:length])


def exchange(port: int, parts: Iterable[bytes]) -> Answer | None:
    """Send bytes, and read what comes back; a server that has heard enough may stop listening."""
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS_MAX) as connection:
        with suppress(BrokenPipeError, ConnectionResetError):
            for part in parts:
                connection.sendall(part)
        try:
            return read_answer(connection)
        except ConnectionResetError:
            return None
