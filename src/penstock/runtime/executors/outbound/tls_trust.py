"""The certificates that this machine trusts, read once for all HTTP clients and off the event loop.

Reading them takes about 50 ms and a megabyte. By default, a client library does it on the event loop for every client.

Above it: the executors that create HTTP clients. Below it: httpx2, which knows where this machine keeps certificates.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import threading
import time

import httpx2

from penstock.base import limits

__all__ = ["trusted_certificates"]


class _CertificateCache:
    """The context that was read last, with its environment and time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read: tuple[tuple[str | None, ...], float, ssl.SSLContext] | None = None

    def known(self) -> ssl.SSLContext | None:
        """The cached context; None if it is too old or was read for another environment."""
        if self._read is None:
            return None
        environment, at, context = self._read
        is_fresh = time.monotonic() - at < limits.TRUST_KEPT_SECONDS
        return context if is_fresh and environment == _environment() else None

    def read(self) -> ssl.SSLContext:
        """The cached context, or a new one. It blocks, so call it in a thread."""
        with self._lock:
            known = self.known()
            if known is None:
                environment, known = _environment(), httpx2.create_ssl_context()
                self._read = (environment, time.monotonic(), known)
            return known


def _environment() -> tuple[str | None, ...]:
    return os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")


_CERTIFICATES = _CertificateCache()


async def trusted_certificates() -> ssl.SSLContext:
    """A TLS context with the certificates that this machine trusts."""
    known = _CERTIFICATES.known()
    return await asyncio.to_thread(_CERTIFICATES.read) if known is None else known
