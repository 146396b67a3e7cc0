"""Sends events to receivers, where the guard allows.

The name of a receiver is resolved for each connection and every address is checked, so that a name that was harmless
when the endpoint was registered leads nowhere else now. Redirects are not followed, answers are not read.

Above it: `app` hands it to `runtime.deliveries`. Below it: `transport`, httpx2.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence

import httpx2

from penstock.base import limits
from penstock.runtime.address_guard import AddressDenied, AddressGuard
from penstock.runtime.deliveries.sending import NotSent, OutgoingEvent, Sent
from penstock.runtime.executors.certificates import trust
from penstock.runtime.executors.failures import shortened
from penstock.runtime.executors.transport import GuardedTransport, Resolver, resolve_host

__all__ = ["WebhookSender"]

_RETRY_AFTER_DIGITS_MAX = 6


class WebhookSender:
    """A `Sender` over HTTP. `allow_private` lets events into private networks and to this machine."""

    def __init__(
        self,
        *,
        allow_private: bool = False,
        allow_hosts: Sequence[str] = (),
        verify: ssl.SSLContext | None = None,
        resolve: Resolver = resolve_host,
    ) -> None:
        self._guard = AddressGuard(allow_private, tuple(allow_hosts))
        self._verify = verify
        self._resolve = resolve
        self._made: GuardedTransport | None = None

    async def send(self, event: OutgoingEvent) -> Sent | NotSent:
        """Send one event; whatever goes wrong is a reason, not an exception."""
        try:
            async with asyncio.timeout(event.timeout_seconds):
                return await self._post(event)
        except (TimeoutError, httpx2.TimeoutException):
            return NotSent(f"no answer within {event.timeout_seconds:g} s")
        except AddressDenied as error:
            return NotSent(shortened(f"not allowed: {error}"))
        except (httpx2.InvalidURL, httpx2.UnsupportedProtocol, httpx2.LocalProtocolError) as error:
            return NotSent(shortened(f"the request cannot be sent: {error}"))
        except httpx2.ConnectError as error:
            return NotSent(shortened(f"no connection: {error}"))
        except httpx2.HTTPError as error:
            return NotSent(f"the exchange broke off: {type(error).__name__}")

    async def close(self) -> None:
        """Close the connections."""
        if self._made is not None:
            await self._made.aclose()

    async def _post(self, event: OutgoingEvent) -> Sent:
        request = httpx2.Request("POST", event.url, headers=event.headers, content=event.body)
        response = await (await self._transport()).handle_async_request(request)
        try:
            return Sent(status=response.status_code, retry_after_seconds=_seconds(response.headers.get("retry-after")))
        finally:
            await response.aclose()

    async def _transport(self) -> GuardedTransport:
        # Made when it is first needed: few runs need it, and reading whom the machine trusts takes a while.
        made = self._made
        if made is not None:
            return made
        verify = self._verify or await trust()
        if self._made is None:  # nobody else has made one meanwhile
            self._made = GuardedTransport(
                self._guard,
                resolve=self._resolve,
                verify=verify,
                connections_max=limits.DELIVERIES_AT_ONCE_MAX,
            )
        return self._made


def _seconds(text: str | None) -> int | None:
    """What `Retry-After` asks for; a date is not looked at."""
    if text is None or not text.isascii() or not text.isdecimal() or len(text) > _RETRY_AFTER_DIGITS_MAX:
        return None
    return int(text)
