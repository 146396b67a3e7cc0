"""Model providers, agents, task hosts and web servers of somebody who means harm: real sockets, standard library only.

    with hostile_answers(Attack("bomb"), spoken=openai) as url: ...

What is ordinary in a protocol (a card, the creation of a task) is answered by `spoken`, everything else by the attack.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

from tests.scenarios.hostile_upstream import in_thread, inflating, listening

__all__ = ["ATTACKS", "Attack", "Request", "Spoken", "hostile_answers"]

ATTACKS = ("long", "lists", "bomb", "endless", "endless_event")
_CHUNK = b"x" * 65_536
_JSON, _EVENTS = "application/json", "text/event-stream"


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked, and at which address."""

    method: str
    path: str
    host: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Attack:
    """One of `ATTACKS`, `drip`, `brotli`, `events`, or `json` with the answer itself in `value`."""

    name: str
    value: Any = None

    @property
    def kind(self) -> str:
        return _EVENTS if self.name in ("endless_event", "events") else _JSON

    @property
    def headers(self) -> str:
        encoding = {"bomb": "gzip", "brotli": "br"}.get(self.name)
        return f"content-encoding: {encoding}\r\n" if encoding else ""

    async def parts(self) -> AsyncIterator[bytes]:
        match self.name:
            case "long":
                yield b'{"text": "' + b"x" * 20_000_000 + b'"}'
            case "lists":
                yield json.dumps({"lists": [[]] * 1_000_000}).encode()
            case "bomb":
                async for part in inflating(1_000):
                    yield part
            case "brotli":
                yield b"\x0b\x02"
            case "json":
                yield json.dumps(self.value).encode()
            case "events":
                while True:
                    yield b"data: " + json.dumps(self.value).encode() + b"\n\n"
            case _:
                yield b"data: " if self.kind is _EVENTS else b'{"text": "'
                while True:
                    yield b"x" if self.name == "drip" else _CHUNK
                    await asyncio.sleep(0.05 if self.name == "drip" else 0)


Spoken: TypeAlias = Callable[[Request], Any]
"""The ordinary answer to a request, as JSON; None where the attack begins."""


@contextmanager
def hostile_answers(attack: Attack, spoken: Spoken = lambda request: None) -> Iterator[str]:
    """The address of such a server, until the block ends; it has a thread and a loop of its own."""

    async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        request = await _read(reader)
        answer = spoken(request)
        if answer is not None:
            body = json.dumps(answer).encode()
            writer.write(f"HTTP/1.1 200 OK\r\ncontent-type: {_JSON}\r\ncontent-length: {len(body)}\r\n\r\n".encode())
            writer.write(body)
            await writer.drain()
            return True
        head = f"HTTP/1.1 200 OK\r\ncontent-type: {attack.kind}\r\n{attack.headers}connection: close\r\n\r\n"
        writer.write(head.encode())
        async for part in attack.parts():
            writer.write(part)
            await writer.drain()
        return False

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                while await exchange(reader, writer):
                    pass
        finally:
            writer.close()

    with in_thread(lambda: listening(serve)) as url:
        yield url


async def _read(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
    body = await reader.readexactly(int(fields.get("content-length", 0)))
    method, path, _ = head.split(" ", 2)
    return Request(method, path, fields["host"], body)
