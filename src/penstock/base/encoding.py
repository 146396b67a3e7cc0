"""Encoding values as JSON, in a way that survives running out of memory.

msgspec's own `encode` writes into bytes that grow. If they cannot grow, it continues with a null pointer, and the
process ends with a segmentation fault. Its `encode_into` checks, and raises `MemoryError`. So nothing in Penstock calls
the former; `tests/tidy/test_encoders.py` sees to it.

Above it: whatever encodes values. Below it: msgspec.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import msgspec

__all__ = ["SafeEncoder", "SafePacker", "encode_bytes"]

Order: TypeAlias = Literal["deterministic", "sorted"]


class SafeEncoder:
    """Encodes values as JSON, like `msgspec.json.Encoder`."""

    __slots__ = ("_write",)

    def __init__(self, *, enc_hook: Callable[[Any], Any] | None = None, order: Order | None = None) -> None:
        self._write = msgspec.json.Encoder(enc_hook=enc_hook, order=order).encode_into

    def encode(self, value: object) -> bytes:
        """Encode a value; raise `MemoryError` if there is no room for the text."""
        buffer = bytearray()
        self._write(value, buffer)
        return bytes(buffer)


class SafePacker:
    """Encodes values as MessagePack, like `msgspec.msgpack.Encoder`."""

    __slots__ = ("_write",)

    def __init__(self) -> None:
        self._write = msgspec.msgpack.Encoder().encode_into

    def encode(self, value: object) -> bytes:
        """Encode a value; raise `MemoryError` if there is no room for it."""
        buffer = bytearray()
        self._write(value, buffer)
        return bytes(buffer)


encode_bytes = SafeEncoder().encode
