"""An HTTP transport that connects only to addresses that a guard allows (protection against SSRF).

A name is resolved here, once per connection, and the connection goes to exactly the address that was checked: a name
that resolves differently a moment later changes nothing. Requests still carry the name, so Host and TLS work as usual.
Connections are pooled per name, so that a certificate checked for one name never vouches for another at the same
address. Proxies, cookies and `.netrc` are ignored.

Above it: the http executor, the webhook sender. Below it: `address_guard`, `tls_trust`, httpcore2.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from ipaddress import ip_address
from typing import TypeAlias

import httpcore2
import httpx2

from penstock.base import limits
from penstock.runtime.address_guard import Address, AddressGuard, literal_address
from penstock.runtime.executors.outbound.tls_trust import trusted_certificates

__all__ = ["GuardedTransport", "Resolver", "resolve_host"]

# The addresses of a name, as texts, for a connection to a port.
Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]

_KEEP_ALIVE_SECONDS = 30.0


async def resolve_host(host: str, port: int) -> list[str]:
    """Resolve a name with the operating system's resolver."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class _GuardedBackend(httpcore2.AsyncNetworkBackend):
    """Resolves a name, asks the guard, and connects to an address that the guard allowed."""

    def __init__(self, guard: AddressGuard, resolve: Resolver) -> None:
        self._guard = guard
        self._resolve = resolve
        self._network = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  # the signature is httpcore2's
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to the first address of the host that accepts."""
        failure = httpcore2.ConnectError(f"{host} has no address")
        for address in self._guard.check(host, await self._addresses(host, port, timeout)):
            try:
                return await self._network.connect_tcp(str(address), port, timeout, local_address, socket_options)
            except httpcore2.ConnectError as error:
                failure = error
        raise failure

    async def _addresses(self, host: str, port: int, timeout_seconds: float | None) -> list[Address]:
        address = literal_address(host)
        if address is not None:
            return [address]
        try:
            async with asyncio.timeout(timeout_seconds):
                return [ip_address(text) for text in await self._resolve(host, port)]
        except TimeoutError:
            raise httpcore2.ConnectTimeout(f"the name {host} was not resolved in time") from None
        except OSError as error:
            raise httpcore2.ConnectError(f"the name {host} cannot be resolved: {error.strerror}") from None

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109  # the signature is httpcore2's
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Refuse: a socket file is on this machine."""
        raise httpcore2.ConnectError("socket files cannot be reached")

    async def sleep(self, seconds: float) -> None:
        """Wait between attempts to connect."""
        await self._network.sleep(seconds)


class _Stream(httpx2.AsyncByteStream):
    def __init__(self, response: httpcore2.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _own_exceptions():
            async for part in self._response.aiter_stream():
                yield part

    async def aclose(self) -> None:
        """Return the connection to the pool, or close it if there was more to read."""
        await self._response.aclose()


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Sends requests over connections that the guard allowed; raises `AddressDenied` for all others.

    `verify` replaces the TLS context of this machine, and `resolve` the resolver of the operating system.
    """

    def __init__(
        self,
        guard: AddressGuard,
        *,
        verify: ssl.SSLContext | None = None,
        resolve: Resolver = resolve_host,
        connections_max: int = limits.HTTP_CONNECTIONS_MAX,
    ) -> None:
        self._backend = _GuardedBackend(guard, resolve)
        self._verify = verify
        self._connections_max = connections_max
        self._made: httpcore2.AsyncConnectionPool | None = None

    async def _pool(self) -> httpcore2.AsyncConnectionPool:
        # Created when first needed: few runs need it, and reading the trusted certificates takes a while.
        made = self._made
        if made is not None:
            return made
        verify = self._verify or await trusted_certificates()
        if self._made is None:  # no other task has created it in the meantime
            self._made = httpcore2.AsyncConnectionPool(
                ssl_context=verify,
                max_connections=self._connections_max,
                keepalive_expiry=_KEEP_ALIVE_SECONDS,
                network_backend=self._backend,
            )
        return self._made

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request; redirects are not followed."""
        pool, url = await self._pool(), request.url
        target = httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        with _own_exceptions():
            response = await pool.handle_async_request(
                httpcore2.Request(
                    method=request.method,
                    url=target,
                    headers=request.headers.raw,
                    content=request.stream,
                    extensions=request.extensions,
                )
            )
        return httpx2.Response(
            response.status,
            headers=response.headers,
            stream=_Stream(response),
            extensions=response.extensions,
            request=request,
        )

    async def aclose(self) -> None:
        """Close every connection."""
        if self._made is not None:
            await self._made.aclose()


@contextmanager
def _own_exceptions() -> Iterator[None]:
    """Turn the exceptions of httpcore2 into those of httpx2, which have the same names."""
    try:
        yield
    except (
        httpcore2.TimeoutException,
        httpcore2.NetworkError,
        httpcore2.ProtocolError,
        httpcore2.UnsupportedProtocol,
    ) as error:
        raise getattr(httpx2, type(error).__name__)(str(error)) from error
