"""A small real HTTP server on the loopback interface, for tests of what sends requests."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.connections import hang_up

__all__ = ["Answer", "Seen", "WebServer", "serving"]


@dataclass(frozen=True)
class Seen:
    """A request as it arrived."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Answer:
    """What to answer."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    never: bool = False  # take the request and stay silent


@dataclass
class WebServer:
    """Answers requests with a function, and remembers them."""

    respond: Callable[[Seen], Answer]
    port: int = 0
    seen: list[Seen] = field(default_factory=list)
    connections: int = 0
    handlers: set[asyncio.Task[None]] = field(default_factory=set)
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    def url(self, path: str = "/", *, host: str = "127.0.0.1", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handler = asyncio.current_task()
        assert handler is not None
        self.handlers.add(handler)
        self.writers.append(writer)
        self.connections += 1
        try:
            while True:
                request = await _read(reader)
                self.seen.append(request)
                answer = self.respond(request)
                if answer.never:
                    await reader.read()  # until the client gives up
                    return
                head = [f"HTTP/1.1 {answer.status} Because", f"content-length: {len(answer.body)}"]
                head.extend(f"{name}: {value}" for name, value in answer.headers.items())
                writer.write("\r\n".join([*head, "", ""]).encode() + answer.body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


async def _read(reader: asyncio.StreamReader) -> Seen:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = head[0].split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Seen(method, target, headers, body)


@asynccontextmanager
async def serving(
    respond: Callable[[Seen], Answer] | Answer, *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[WebServer]:
    """A server for the length of a block."""
    fixed = respond if isinstance(respond, Answer) else None
    server = WebServer(respond if not isinstance(respond, Answer) else lambda seen: fixed or Answer())
    listening = await asyncio.start_server(server.handle, "127.0.0.1", 0, ssl=tls)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        await listening.wait_closed()
        await asyncio.gather(*server.handlers)  # they end when the client closes its connections
        await hang_up(server.writers)
