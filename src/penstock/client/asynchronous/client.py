"""`AsyncClient`: a typed method for every operation of a server; calls are awaited.

    async with AsyncClient("http://127.0.0.1:5151", key) as client:
        run = await client.executions.run("refund", {"order_id": "A-1042"})

Above it: programs. Below it: `connection`, the generated resources.
"""

from __future__ import annotations

import httpx2

from penstock.client.asynchronous.connection import AsyncConnection
from penstock.client.asynchronous.resources import AsyncResources
from penstock.client.retries import RETRIES_DEFAULT

__all__ = ["AsyncClient"]


class AsyncClient(AsyncConnection, AsyncResources):
    """A server, for one event loop. Without arguments it is the one in PENSTOCK_SERVER, with PENSTOCK_API_KEY.

    `timeout_seconds` counts for each attempt; `retries` is how often a call is repeated that can be repeated safely.
    """

    def __init__(
        self,
        server: str | None = None,
        key: str | None = None,
        *,
        timeout_seconds: float = 30.0,
        retries: int = RETRIES_DEFAULT,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        AsyncConnection.__init__(
            self, server, key, timeout_seconds=timeout_seconds, retries=retries, transport=transport
        )
        AsyncResources.__init__(self, self)
