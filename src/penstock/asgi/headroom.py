"""Refuses work for which there is no memory, before it begins.

Libraries in C and Rust do not survive an allocation that fails: msgspec's decoder and Cedar end the process. So a
request is only begun, and its body only decoded, while the process may take far more memory than that needs. What is
asked for here is mapped, never touched, and given back at once; it fails where the address space of the process is
limited (`ulimit -v`, `prlimit --as`), or where the system does not promise more memory than it has.

Above it: the middleware of all surfaces. Below it: mmap.
"""

from __future__ import annotations

import mmap
import time

from starlette.types import Scope

from penstock.base import limits

__all__ = ["Headroom", "require_memory"]

_FLAGS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS


class Headroom:
    """Looks whether there is memory: for every large body, and else now and then."""

    def __init__(self) -> None:
        self._looked_at = 0.0

    def require(self, scope: Scope) -> None:
        """Raise `MemoryError` unless there is memory for a request."""
        body_bytes = _announced_bytes(scope)
        now = time.monotonic()
        if body_bytes <= limits.PAYLOAD_INLINE_BYTES_MAX and now - self._looked_at < limits.MEMORY_LOOK_SECONDS:
            return
        require_memory(body_bytes)
        self._looked_at = now


def require_memory(body_bytes: int) -> None:
    """Raise `MemoryError` unless there is memory to decode a body."""
    size = limits.MEMORY_HEADROOM_BYTES + body_bytes * limits.MEMORY_BYTES_PER_BODY_BYTE
    try:
        mmap.mmap(-1, size, flags=_FLAGS).close()
    except OSError:
        raise MemoryError from None


def _announced_bytes(scope: Scope) -> int:
    """How large the body of a request is; a body that does not say is taken to be as large as one may be."""
    for name, value in scope["headers"]:
        if name == b"content-length":
            return min(int(value), limits.MEMORY_BODY_BYTES_MAX) if value.isdigit() else 0
        if name == b"transfer-encoding":
            return limits.MEMORY_BODY_BYTES_MAX
    return 0
