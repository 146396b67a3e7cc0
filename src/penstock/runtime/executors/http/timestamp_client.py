"""Asks a time-stamping authority over HTTP (RFC 3161, section 3.4), where the address guard allows.

As with webhooks, every address is checked for each connection, and redirects are not followed. The answer is read up to
a limit.

Above it: `app` passes it to what stamps checkpoints. Below it: `outbound.guarded_transport`, httpx2.
"""

from __future__ import annotations

import asyncio

import httpx2

from penstock.base import limits
from penstock.runtime.address_guard import AddressDenied, AddressGuard
from penstock.runtime.executors.outbound.error_text import truncated
from penstock.runtime.executors.outbound.guarded_transport import GuardedTransport
from penstock.runtime.webhooks.dispatcher import NotSent

__all__ = ["TimestampClient"]

_HEADERS = {"content-type": "application/timestamp-query", "accept": "application/timestamp-reply"}


class TimestampClient:
    """A client of one authority. `allow_private` lets it be in a private network, or on this machine."""

    def __init__(self, url: str, *, allow_private: bool = False, user_agent: str = "penstock") -> None:
        self.url = url
        self._headers = {**_HEADERS, "user-agent": user_agent}
        self._transport = GuardedTransport(AddressGuard(allow_private), connections_max=1)

    async def ask(self, body: bytes, *, timeout_seconds: float) -> bytes | NotSent:
        """Send a request and return the answer; every failure is returned as a reason, not raised."""
        try:
            async with asyncio.timeout(timeout_seconds):
                return await self._post(body)
        except (TimeoutError, httpx2.TimeoutException):
            return NotSent(f"no answer within {timeout_seconds:g} s")
        except AddressDenied as error:
            return NotSent(truncated(f"not allowed: {error}"))
        except (httpx2.InvalidURL, httpx2.UnsupportedProtocol, httpx2.LocalProtocolError) as error:
            return NotSent(truncated(f"the request cannot be sent: {error}"))
        except httpx2.ConnectError as error:
            return NotSent(truncated(f"no connection: {error}"))
        except httpx2.HTTPError as error:
            return NotSent(f"the exchange broke off: {type(error).__name__}")

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

    async def _post(self, body: bytes) -> bytes | NotSent:
        request = httpx2.Request("POST", self.url, headers=self._headers, content=body)
        response = await self._transport.handle_async_request(request)
        try:
            if response.status_code != httpx2.codes.OK:
                return NotSent(f"it answered {response.status_code}")
            answer = bytearray()
            async for part in response.aiter_raw():
                answer += part
                if len(answer) > limits.AUDIT_STAMP_BYTES_MAX:
                    return NotSent(f"its answer has more than {limits.AUDIT_STAMP_BYTES_MAX} bytes")
            return bytes(answer)
        finally:
            await response.aclose()
