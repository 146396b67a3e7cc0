"""The steps of the pack: what the test tools of the official suite make, say and change while they run.

Above it: `server` registers them. Below it: steps as anybody writes them.
"""

from __future__ import annotations

import asyncio
import base64
import io
import struct
import wave
import zlib
from collections.abc import Awaitable, Callable
from typing import Any

from penstock import StepContext, StepFailed, step

__all__ = ["changing_steps", "fail", "logging_work", "picture", "progressing_work", "sound"]

_SAMPLES_PER_SECOND = 8_000
# What the suite wants between two messages.
_PAUSE_SECONDS = 0.05


@step(name="pack:picture")
def picture() -> str:
    """A PNG with one red pixel, in base64."""
    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixel = zlib.compress(b"\x00\xff\x00\x00")
    chunks = (_chunk(b"IHDR", header), _chunk(b"IDAT", pixel), _chunk(b"IEND", b""))
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(chunks)).decode("ascii")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


@step(name="pack:sound")
def sound() -> str:
    """A WAV with a hundredth of a second of silence, in base64."""
    written = io.BytesIO()
    with wave.open(written, "wb") as made:
        made.setnchannels(1)
        made.setsampwidth(1)
        made.setframerate(_SAMPLES_PER_SECOND)
        made.writeframes(b"\x80" * (_SAMPLES_PER_SECOND // 100))
    return base64.b64encode(written.getvalue()).decode("ascii")


@step(name="pack:fail")
def fail(code: str, message: str) -> None:
    """Fail as the document says."""
    raise StepFailed(code, message, retryable=False)


@step(name="pack:logging_work")
async def logging_work(pause_seconds: float = _PAUSE_SECONDS, *, context: StepContext) -> None:
    """Log three messages."""
    context.logger.info("Tool execution started")
    await asyncio.sleep(pause_seconds)
    context.logger.info("Tool processing data")
    await asyncio.sleep(pause_seconds)
    context.logger.info("Tool execution completed")


@step(name="pack:progressing_work")
async def progressing_work(*, context: StepContext) -> None:
    """Say three times how far it is."""
    for done in (0.0, 0.5, 1.0):
        context.progress(done, f"{done:.0%}")
        await asyncio.sleep(_PAUSE_SECONDS)


def changing_steps(change: Callable[[str], Awaitable[str]]) -> list[Callable[..., Any]]:
    """Steps that change what the server offers; `change` takes the kind of it."""

    @step(name="pack:change_tools")
    async def change_tools() -> str:
        return await change("tool")

    @step(name="pack:change_prompts")
    async def change_prompts() -> str:
        return await change("prompt")

    return [change_tools, change_prompts]
