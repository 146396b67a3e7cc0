"""MCP servers of somebody who means harm, over a pipe and over HTTP: only the standard library, so cheap to start.

    python hostile_upstream.py [FILE]                       # a pipe
    with hostile_http(file) as url: ...                     # HTTP, in a thread of this process

They speak the older era. What a tool does is its name, see `PIPE_TOOLS` and `HTTP_TOOLS`. `FILE` is a JSON object that
is read again for each list of tools: its members replace those of the tool `pid`, and `tools` are listed beside it.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any

__all__ = [
    "CONFIRM",
    "HTTP_TOOLS",
    "PIPE_TOOLS",
    "hostile_http",
    "in_thread",
    "inflating",
    "listening",
    "pipe_arguments",
]

PIPE_TOOLS = ("pid", "ask", "ask_many", "hold", "text", "lists", "blocks", "endless_line", "chatter", "linger")
HTTP_TOOLS = (
    *("pid", "ask", "hold", "text", "lists", "text_in_event", "gzip", "gzip_bomb", "endless_body", "endless_event"),
    *("chatter", "many_headers", "endless_headers", "brotli"),
)
CONFIRM: dict[str, Any] = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
_MEGABYTE = 1_000_000
_CHUNK = b"x" * 65_536
_VERSION = "2025-06-18"
_SECONDS_MAX = 240.0
_EVENTS, _JSON = "text/event-stream", "application/json"

Message = dict[str, Any]
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def pipe_arguments(file: Path | None = None) -> tuple[str, ...]:
    """What a Python interpreter is started with to be such a server."""
    return (str(Path(__file__).resolve()), *((str(file),) if file is not None else ()))


def listed(names: Iterable[str], file: Path | None) -> list[Message]:
    """The tools, as they are described now."""
    said: Message = json.loads(file.read_text(encoding="utf-8")) if file is not None and file.exists() else {}
    others = said.pop("tools", [])
    tools: list[Message] = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
    tools[0].update({"description": "Says which process it is.", **said})
    return [*tools, *others]


def result(message: Message, value: Message) -> Message:
    return {"jsonrpc": "2.0", "id": message["id"], "result": value}


def text(message: Message, said: str) -> Message:
    return result(message, {"content": [{"type": "text", "text": said}]})


def structured(message: Message, value: Message) -> Message:
    return result(message, {"content": [], "structuredContent": value})


def question(number: int | str, said: str) -> Message:
    params = {"message": said, "requestedSchema": CONFIRM}
    return {"jsonrpc": "2.0", "id": f"q{number}", "method": "elicitation/create", "params": params}


def progress(message: Message, number: int) -> Message:
    token = message["params"].get("_meta", {}).get("progressToken", 0)
    params = {"progressToken": token, "progress": number}
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}


def ordinary(message: Message, names: Iterable[str], file: Path | None) -> Message | None:
    """The answer to whatever has nothing hostile about it; None for the call of a tool."""
    match message.get("method"):
        case "initialize":
            about = {"name": "hostile", "version": "1"}
            capabilities = {"tools": {"listChanged": True}}
            return result(message, {"protocolVersion": _VERSION, "capabilities": capabilities, "serverInfo": about})
        case "tools/list":
            return result(message, {"tools": listed(names, file)})
        case "ping":
            return result(message, {})
        case "tools/call":
            return None
        case _:
            error = {"code": -32601, "message": "Method not found"}
            return {"jsonrpc": "2.0", "id": message.get("id"), "error": error}


def plain_call(message: Message) -> Message | None:
    """The answer to a call that needs nothing of its transport."""
    arguments = message["params"].get("arguments") or {}
    count = int(arguments.get("count", 1))
    match message["params"]["name"]:
        case "pid":
            return structured(message, {"pid": os.getpid()})
        case "text":
            return text(message, str(arguments.get("letter", "x")) * count)
        case "lists":
            return structured(message, {"lists": [[]] * count})
        case "blocks":
            return result(message, {"content": [{"type": "text", "text": ""}] * count})
        case _:
            return None


# --- a pipe ---------------------------------------------------------------------------------------


class _Pipe:
    def __init__(self, file: Path | None) -> None:
        self.file = file
        self.asked: dict[str, Message] = {}

    def say(self, message: Message) -> None:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()

    def heard(self, message: Message) -> None:
        if "method" not in message:
            self.answered(message)
            return
        if "id" not in message:
            return
        answer = ordinary(message, PIPE_TOOLS, self.file)
        if answer is None:
            answer = plain_call(message)
        if answer is not None:
            self.say(answer)
        elif "params" in message:
            self.misbehave(message)

    def answered(self, message: Message) -> None:
        call = self.asked.pop(str(message.get("id")), None)
        if call is not None:
            told = message.get("result") or message.get("error")
            self.say(structured(call, {"pid": os.getpid(), "answer": told}))

    def misbehave(self, message: Message) -> None:
        arguments = message["params"].get("arguments") or {}
        match message["params"]["name"]:
            case "ask":
                self.asked[f"q{message['id']}"] = message
                self.say(question(message["id"], str(arguments.get("said", "sure?"))))
            case "ask_many":
                for number in range(int(arguments["count"])):
                    self.say(question(number, f"question {number}?"))
            case "endless_line":
                sys.stdout.write(json.dumps(text(message, ""))[:-6])
                sys.stdout.flush()
                while True:
                    sys.stdout.buffer.write(_CHUNK)
            case "chatter":
                for number in range(10_000_000):
                    self.say(progress(message, number))
            case _:
                pass  # `hold`, `linger`: no answer, ever


def _run_pipe(file: Path | None) -> None:
    pipe = _Pipe(file)
    for line in sys.stdin:
        if line.strip():
            pipe.heard(json.loads(line))


# --- HTTP -----------------------------------------------------------------------------------------


def inflating(megabytes: int) -> AsyncIterator[bytes]:
    """A gzip body that inflates to so many megabytes, made without compressing them all."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, 31)
    first = compressor.compress(b"0" * _MEGABYTE) + compressor.flush(zlib.Z_FULL_FLUSH)
    # After a full flush a block refers to nothing before it: it can be sent as often as one likes.
    block = compressor.compress(b"0" * _MEGABYTE) + compressor.flush(zlib.Z_FULL_FLUSH)

    async def parts() -> AsyncIterator[bytes]:
        yield first
        for _ in range(megabytes - 1):
            yield block

    return parts()


class _Http:
    def __init__(self, file: Path | None) -> None:
        self.file = file
        self.asked: dict[str, tuple[Message, asyncio.StreamWriter]] = {}
        self.closing = asyncio.Event()
        self.lists = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                while await self.exchange(reader, writer):
                    pass
        finally:
            writer.close()

    async def exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
        body = await reader.readexactly(int(fields.get("content-length", 0)))
        if not head.startswith("POST"):
            await self.send(writer, "405 Method Not Allowed", "text/plain", b"")
            return True
        message: Message = json.loads(body)
        if "method" not in message:
            await self.answered(message)
            await self.send(writer, "202 Accepted", "text/plain", b"")
        elif "id" not in message:
            await self.send(writer, "202 Accepted", "text/plain", b"")
        else:
            self.lists += message["method"] == "tools/list"
            answer = ordinary(message, HTTP_TOOLS, self.file)
            if answer is None:
                answer = plain_call(message)
            if answer is None:
                await self.misbehave(message, writer)
                return False
            await self.send(writer, "200 OK", "application/json", json.dumps(answer).encode())
        return True

    async def send(self, writer: asyncio.StreamWriter, status: str, kind: str, body: bytes) -> None:
        head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nmcp-session-id: s1\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()

    async def stream(
        self, writer: asyncio.StreamWriter, kind: str, parts: AsyncIterator[bytes], more: str = ""
    ) -> None:
        writer.write(f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n{more}connection: close\r\n\r\n".encode())
        async for part in parts:
            writer.write(part)
            await writer.drain()

    async def answered(self, message: Message) -> None:
        call, writer = self.asked.pop(str(message.get("id")), (None, None))
        if call is not None and writer is not None:
            answer = structured(call, {"answer": message.get("result") or message.get("error")})
            writer.write(b"data: " + json.dumps(answer).encode() + b"\n\n")
            await writer.drain()
            writer.close()

    async def misbehave(self, message: Message, writer: asyncio.StreamWriter) -> None:
        arguments = message["params"].get("arguments") or {}
        count, name = int(arguments.get("count", 1)), str(message["params"]["name"])
        match name:
            case "ask":
                self.asked[f"q{message['id']}"] = message, writer
                asked = question(message["id"], str(arguments.get("said", "sure?")))
                await self.stream(writer, _EVENTS, _once(_event(asked)))
                await writer.wait_closed()
            case "many_headers" | "endless_headers":
                writer.write(b"HTTP/1.1 200 OK\r\n")
                pause = 0.0 if name == "many_headers" else 0.05
                async for part in self.forever(lambda number: f"x-{number}: {number}\r\n".encode() * 10, pause):
                    writer.write(part)
                    await writer.drain()
            case "hold":
                await self.closing.wait()
            case _:
                await self.stream(writer, *self.body(name, message, count))

    def body(self, name: str, message: Message, count: int) -> tuple[str, AsyncIterator[bytes], str]:
        """What is sent for the call of a tool, as what, and with which other headers."""
        letter = str((message["params"].get("arguments") or {}).get("letter", "x"))
        match name:
            case "text_in_event":
                return _EVENTS, _once(_event(text(message, letter * count))), ""
            case "gzip":
                packed = zlib.compressobj(6, zlib.DEFLATED, 31)
                body = packed.compress(json.dumps(text(message, letter * count)).encode()) + packed.flush()
                return _JSON, _once(body), "content-encoding: gzip\r\n"
            case "gzip_bomb":
                return _JSON, inflating(count), "content-encoding: gzip\r\n"
            case "brotli":
                return _JSON, _once(b"\x0b\x02"), "content-encoding: br\r\n"
            case "endless_event":
                return _EVENTS, self.forever(lambda number: _CHUNK if number else b"data: "), ""
            case "chatter":
                return _EVENTS, self.forever(lambda number: _event(progress(message, number))), ""
            case _:
                return _JSON, self.forever(lambda number: _CHUNK), ""

    async def forever(self, part: Callable[[int], bytes], pause: float = 0.0) -> AsyncIterator[bytes]:
        number = 0
        while not self.closing.is_set():
            yield part(number)
            number += 1
            await asyncio.sleep(pause)


def _event(message: Message) -> bytes:
    return b"data: " + json.dumps(message).encode() + b"\n\n"


async def _once(part: bytes) -> AsyncIterator[bytes]:
    yield part


@asynccontextmanager
async def listening(serve: Serve) -> AsyncIterator[str]:
    """The address of a server that gives each connection to `serve`, and hangs up when the block ends."""
    tasks: set[asyncio.Future[None]] = set()
    writers: list[asyncio.StreamWriter] = []

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        task = asyncio.ensure_future(serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(connected, "127.0.0.1", 0, limit=2**24)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # As `tests.connections` does, which a script that only has the standard library cannot import.
        for writer in writers:
            if writer.get_extra_info("socket").fileno() >= 0:
                writer.transport.abort()
            with suppress(OSError):
                await writer.wait_closed()


@asynccontextmanager
async def _listening(file: Path | None) -> AsyncIterator[str]:
    server = _Http(file)
    async with listening(server.serve) as url:
        try:
            yield f"{url}/mcp"
        finally:
            server.closing.set()


@contextmanager
def hostile_http(file: Path | None = None) -> Iterator[str]:
    """The address of such a server, until the block ends; it has a thread and a loop of its own."""
    with in_thread(lambda: _listening(file)) as url:
        yield url


@contextmanager
def in_thread(listening: Callable[[], AbstractAsyncContextManager[str]]) -> Iterator[str]:
    """The address of a server that is made by `listening`, in a thread and a loop of its own until the block ends."""
    begun: Future[tuple[str, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def serve() -> None:
        left = asyncio.Event()
        async with listening() as url:
            begun.set_result((url, asyncio.get_running_loop(), left))
            await left.wait()

    thread = Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    url, loop, left = begun.result(_SECONDS_MAX)
    try:
        yield url
    finally:
        loop.call_soon_threadsafe(left.set)
        thread.join(_SECONDS_MAX)


if __name__ == "__main__":
    _run_pipe(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
