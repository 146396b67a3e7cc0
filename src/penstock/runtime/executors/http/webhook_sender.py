"""Sends webhooks to receivers, where the address guard allows.

The name of a receiver is resolved for each connection, and every address is checked: a name that was harmless when the
endpoint was registered cannot lead elsewhere later. Redirects are not followed, and responses are not read.

Above it: `app` passes it to `runtime.webhooks`. Below it: `outbound.guarded_transport`, httpx2.
"""

from __future__ import annotations

import asyncio

import httpx2

from penstock.base import limits
from penstock.runtime.address_guard import AddressDenied, AddressGuard
from penstock.runtime.executors.outbound.error_text import truncated
from penstock.runtime.executors.outbound.guarded_transport import GuardedTransport
from penstock.runtime.webhooks.dispatcher import NotSent, OutgoingEvent, Sent

__all__ = ["WebhookSender"]

_RETRY_AFTER_DIGITS_MAX = 6


class WebhookSender:
    """A `Sender` over HTTP. `allow_private` lets events into private networks and to this machine."""

    def __init__(self, *, allow_private: bool = False) -> None:
        guard = AddressGuard(allow_private)
        self._transport = GuardedTransport(guard, connections_max=limits.DELIVERIES_AT_ONCE_MAX)

    async def send(self, event: OutgoingEvent) -> Sent | NotSent:
        """Send one event; every failure is returned as a reason, not raised."""
        try:
            async with asyncio.timeout(event.timeout_seconds):
                return await self._post(event)
        except (TimeoutError, httpx2.TimeoutException):
            return NotSent(f"no answer within {event.timeout_seconds:g} s")
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

    async def _post(self, event: OutgoingEvent) -> Sent:
        request = httpx2.Request("POST", event.url, headers=event.headers, content=event.body)
        response = await self._transport.handle_async_request(request)
        try:
            return Sent(status=response.status_code, retry_after_seconds=_seconds(response.headers.get("retry-after")))
        finally:
            await response.aclose()


def _seconds(text: str | None) -> int | None:
    """The seconds that `Retry-After` asks for; dates are ignored."""
    if text is None or not text.isascii() or not text.isdecimal() or len(text) > _RETRY_AFTER_DIGITS_MAX:
        return None
    return int(text)
