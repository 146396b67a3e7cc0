"""Whom connections over TLS trust, unless somebody says otherwise: read off the event loop, and once for all clients.

Reading the certificates that a machine trusts takes some 50 ms and a megabyte. A client library does it again for each
client that it makes, at once, while nothing else moves.

Above it: the executors that make HTTP clients. Below it: httpx2, which knows where this machine keeps certificates.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import threading
import time

import httpx2

from penstock.base import limits

__all__ = ["trust"]


class _Trust:
    """What was read last: for which environment, when, and what it was."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read: tuple[tuple[str | None, ...], float, ssl.SSLContext] | None = None

    def known(self) -> ssl.SSLContext | None:
        """What was read, unless it was long ago or for another environment."""
        if self._read is None:
            return None
        environment, at, context = self._read
        is_fresh = time.monotonic() - at < limits.TRUST_KEPT_SECONDS
        return context if is_fresh and environment == _environment() else None

    def read(self) -> ssl.SSLContext:
        """The same, read if it has to be; for a thread."""
        with self._lock:
            known = self.known()
            if known is None:
                environment, known = _environment(), httpx2.create_ssl_context()
                self._read = (environment, time.monotonic(), known)
            return known


def _environment() -> tuple[str | None, ...]:
    return os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")


_TRUST = _Trust()


async def trust() -> ssl.SSLContext:
    """The certificates that this machine trusts."""
    known = _TRUST.known()
    return await asyncio.to_thread(_TRUST.read) if known is None else known
