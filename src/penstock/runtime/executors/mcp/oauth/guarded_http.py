"""Requests to addresses that a server named: guarded, bounded in size and time, never redirected.

The settings name the MCP server, so its host may be anywhere. Where its documents lead is the server's choice: only to
public addresses, and to hosts that the settings name or allow. Tokens and secrets travel over TLS, except to this
machine.

Above it: `protocol`. Below it: `outbound`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import httpx2

from penstock.base import limits
from penstock.runtime.address_guard import AddressDenied, AddressGuard, literal_address
from penstock.runtime.executors.outbound.bounded_body import ACCEPTED_ENCODING, ResponseLimits
from penstock.runtime.executors.outbound.guarded_transport import GuardedTransport
from penstock.runtime.executors.outbound.httpx2_limits import limit_response
from penstock.runtime.upstreams.oauth.model import OAuthServer, authorization_failed, authorization_unavailable

__all__ = ["Answer", "GuardedHttp", "is_safe_address"]

_ANSWER: Final = ResponseLimits(bytes_max=limits.OAUTH_ANSWER_BYTES_MAX)
_TIMEOUT: Final = {name: limits.OAUTH_ANSWER_SECONDS_MAX for name in ("connect", "read", "write", "pool")}


class Answer(NamedTuple):
    """A response that was read."""

    status: int
    body: bytes
    response: httpx2.Response


def is_safe_address(url: str) -> bool:
    """Whether an address may be sent secrets to: over TLS, or on this machine; without a user or a fragment."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = parts.port
    except ValueError:
        return False
    if not host or parts.username is not None or parts.password is not None or parts.fragment or port == 0:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and _is_this_machine(host))


def _is_this_machine(host: str) -> bool:
    address = literal_address(host)
    return host == "localhost" if address is None else address.is_loopback


class GuardedHttp:
    """Sends the requests of OAuth for one server."""

    def __init__(self, server: OAuthServer, *, allow_private: bool, allow_hosts: tuple[str, ...]) -> None:
        self._server = server
        named = {urlsplit(url).hostname for url in (server.url, server.issuer) if url is not None}
        guard = AddressGuard(allow_private, (*allow_hosts, *sorted(host for host in named if host)))
        self._transport = GuardedTransport(guard)

    async def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
    ) -> Answer:
        """Send one request and read its answer. Raises our errors, which show nothing of the request."""
        name = self._server.name
        if not is_safe_address(url):
            raise authorization_failed(
                name, f"{_shown(url)} is not an address for secrets: it has to begin with https://"
            )
        try:
            given = {"accept-encoding": ACCEPTED_ENCODING, **(headers or {})}
            request = httpx2.Request(method, url, headers=given, content=content, extensions={"timeout": _TIMEOUT})
            async with asyncio.timeout(limits.OAUTH_ANSWER_SECONDS_MAX):
                response = await self._transport.handle_async_request(request)
                try:
                    limit_response(response, _ANSWER)
                    return Answer(response.status_code, await response.aread(), response)
                finally:
                    await response.aclose()
        except AddressDenied as error:
            hint = "if it is meant, an operator can allow it with http.allow_hosts"
            raise authorization_failed(name, f"{_shown(url)} may not be reached: {error}", hint) from None
        except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
            raise authorization_failed(name, f"{_shown(url)} is not an address ({type(error).__name__})") from None
        except (TimeoutError, httpx2.HTTPError) as error:
            raise authorization_unavailable(name, f"{_shown(url)} does not answer ({type(error).__name__})") from None

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.aclose()


def _shown(url: str) -> str:
    """An address without what could be secret in it."""
    try:
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.hostname or ''}{parts.path}"[:200]
    except ValueError:
        return "the address"
