"""The stdio transport: an MCP server that is started as a process, with a limit on the length of its lines.

The SDK's own transport keeps a line whatever its length, and copies it whenever a piece of it arrives. Here a line that
is too long is skipped, and its request is answered with an error instead (`TOO_LARGE` in its data).

Above it: `session`. Below it: anyio, `sdk_internals`.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TextIO

import anyio
import anyio.lowlevel
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import StdioServerParameters
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, ErrorData, JSONRPCError, jsonrpc_message_adapter

from penstock.base import limits
from penstock.runtime.executors.mcp.sdk_internals import end_process_tree, release_process, start_process
from penstock.runtime.executors.outbound.bounded_body import TOO_LARGE
from penstock.runtime.executors.outbound.json_tokens import TokenCounter
from penstock.runtime.executors.outbound.message_rate import MessageRateLimiter

__all__ = ["StdioIntake", "bounded_stdio", "too_large_response"]

_Received = MemoryObjectSendStream[SessionMessage | Exception]
_GONE = (anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream, OSError)
_FLUSH_SECONDS = 0.5
_EXIT_SECONDS = 2.0
_POLL_SECONDS = 0.01
# Most servers write the id of an answer at the start of the line.
_HEAD_BYTES = 4_096
_LARGE_BYTES = 524_288
_ID = re.compile(rb'"id"\s*:\s*(?:(\d{1,18})|"([^"\\]{1,200})")')


def too_large_response(request_id: int | str) -> SessionMessage:
    """The response to a caller whose answer is too large."""
    error = ErrorData(code=INVALID_REQUEST, message=TOO_LARGE, data={TOO_LARGE: True})
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=request_id, error=error))


@dataclass(slots=True)
class _Lines:
    """Splits chunks into lines. A line that is too long, or has too many values, is reported once and skipped."""

    kept: bytearray = field(default_factory=bytearray)
    counter: TokenCounter = field(default_factory=TokenCounter)
    size: int = 0
    skipping: bool = False

    def taken(self, piece: bytes) -> tuple[list[bytes], list[bytes]]:
        """The lines that end in a chunk, and the starts of lines that are too long."""
        lines: list[bytes] = []
        too_long: list[bytes] = []
        *ended, rest = piece.split(b"\n")
        for end in ended:
            self._keep(end, too_long)
            if not self.skipping:
                lines.append(bytes(self.kept))
            self.kept.clear()
            self.counter.clear()
            self.size, self.skipping = 0, False
        self._keep(rest, too_long)
        return lines, too_long

    def _keep(self, piece: bytes, too_long: list[bytes]) -> None:
        self.size += len(piece)
        if self.skipping:
            return
        self.kept += piece
        too_many = self.counter.feed(piece) > limits.UPSTREAM_ANSWER_TOKENS_MAX
        if too_many or self.size > limits.UPSTREAM_ANSWER_BYTES_MAX:
            too_long.append(bytes(self.kept[:_HEAD_BYTES]))
            self.kept.clear()
            self.skipping = True


@dataclass(slots=True)
class StdioIntake:
    """The state of reading from a server, and the callback for output that belongs to no call."""

    on_flood: Callable[[], None]
    lines: _Lines = field(default_factory=_Lines)
    pace: MessageRateLimiter = field(default_factory=MessageRateLimiter)

    @property
    def is_amid_a_skipped_line(self) -> bool:
        """True while the server sends a line that is too long. Nothing else arrives before its end."""
        return self.lines.skipping

    @property
    def is_behind(self) -> bool:
        """True if the server sends faster than we read, or is in the middle of a line."""
        return self.lines.size > 0 or self.pace.is_throttled()


@asynccontextmanager
async def bounded_stdio(
    parameters: StdioServerParameters, errors: TextIO, intake: StdioIntake
) -> AsyncIterator[tuple[Any, Any]]:
    """Start a server and talk to it until the block ends."""
    process = await start_process(parameters, errors)
    # No await before the task group: a cancellation in between would leave the process running.
    incoming, reader = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    writer, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    written = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(_read, process, incoming, intake)
        group.start_soon(_write, process, outgoing, incoming, written)
        try:
            yield reader, writer
        finally:
            with anyio.CancelScope(shield=True):
                reader.close()
                writer.close()
                with anyio.move_on_after(_FLUSH_SECONDS):
                    await written.wait()
                await _stop(process)
                for stream in (incoming, outgoing):
                    await stream.aclose()
            group.cancel_scope.cancel()


async def _read(process: Any, incoming: _Received, intake: StdioIntake) -> None:
    lines, pace, on_flood = intake.lines, intake.pace, intake.on_flood
    try:
        async with incoming:
            async for piece in process.stdout:
                whole, too_long = lines.taken(piece)
                for head in too_long:
                    await _deliver_too_large(head, incoming, on_flood)
                for line in whole:
                    await pace.count(1)
                    if len(line) > _LARGE_BYTES:
                        await anyio.lowlevel.checkpoint()  # decoding it is the next step
                    await _deliver(line, incoming)
                if lines.skipping and lines.size > limits.UPSTREAM_SKIPPED_BYTES_MAX:
                    on_flood()
                    break
    except _GONE:
        pass  # the server, or the reader, is gone
    finally:
        await _drain(process)


async def _deliver(line: bytes, incoming: _Received) -> None:
    try:
        message = SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        await incoming.send(error)
    else:
        await incoming.send(message)


async def _deliver_too_large(head: bytes, incoming: _Received, on_flood: Callable[[], None]) -> None:
    found = _ID.search(head)
    if found is None:
        on_flood()
        return
    number, name = found.groups()
    await incoming.send(too_large_response(int(number) if number is not None else name.decode("utf-8", "replace")))


async def _write(
    process: Any, outgoing: MemoryObjectReceiveStream[SessionMessage], incoming: _Received, written: anyio.Event
) -> None:
    try:
        async with outgoing:
            async for message in outgoing:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await process.stdin.send(text.encode() + b"\n")
    except _GONE:
        # The server may keep running with its output closed: readers must see the end.
        await incoming.aclose()
    finally:
        written.set()


async def _drain(process: Any) -> None:
    """Keep reading, so that a server that is still writing can exit."""
    with anyio.CancelScope(shield=True), suppress(*_GONE):
        while True:
            await process.stdout.receive()


async def _stop(process: Any) -> None:
    """Close the server's input, give it time, then end it with all its descendants."""
    with suppress(*_GONE):
        await process.stdin.aclose()
    if not await _has_ended(process):
        await end_process_tree(process, _EXIT_SECONDS)
        await _has_ended(process)
    with suppress(*_GONE):
        await process.stdout.aclose()
    release_process(process)


async def _has_ended(process: Any) -> bool:
    # Not `wait`, which also waits for the pipes that a child of the server may hold.
    with anyio.move_on_after(_EXIT_SECONDS):
        while process.returncode is None:  # noqa: ASYNC110  # nothing tells of it but the pipes
            await anyio.sleep(_POLL_SECONDS)
    return process.returncode is not None
