"""`Client`: a typed method for every operation of a server; calls wait for their answer.

    with Client("http://127.0.0.1:5151", key) as client:
        run = client.executions.run("refund", {"order_id": "A-1042"})

Above it: programs. Below it: `connection`, the generated resources.

Made by `scripts/docs` from `asynchronous/client.py`.
"""

from __future__ import annotations

import httpx2

from penstock.client.retries import RETRIES_DEFAULT
from penstock.client.sync.connection import Connection
from penstock.client.sync.resources import Resources

__all__ = ["Client"]


class Client(Connection, Resources):
    """A server. Without arguments it is the one in PENSTOCK_SERVER, with the key in PENSTOCK_API_KEY.

    `timeout_seconds` counts for each attempt; `retries` is how often a call is repeated that can be repeated safely.
    """

    def __init__(
        self,
        server: str | None = None,
        key: str | None = None,
        *,
        timeout_seconds: float = 30.0,
        retries: int = RETRIES_DEFAULT,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        Connection.__init__(self, server, key, timeout_seconds=timeout_seconds, retries=retries, transport=transport)
        Resources.__init__(self, self)
