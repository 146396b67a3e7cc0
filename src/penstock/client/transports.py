"""How the clients use httpx2: settings that both kinds share, and the meaning of its errors.

Above it: the clients. Below it: httpx2.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import httpx2

from penstock.client.options import ClientOptions, is_loopback

__all__ = ["http_settings", "was_sent"]

# Errors raised before the request was sent: the server has not seen anything of it.
_BEFORE_SENDING = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)


def http_settings(options: ClientOptions) -> dict[str, Any]:
    """Return the arguments of an httpx2 client."""
    parts = urlsplit(options.base_url)
    return {
        "headers": options.headers(),
        "timeout": options.timeout_seconds,
        # A redirect would send the key to another address.
        "follow_redirects": False,
        # Plain HTTP needs no certificates, and loading them takes as long as everything else here.
        "verify": parts.scheme == "https",
        # A proxy cannot reach the loopback of this machine.
        "trust_env": not is_loopback(parts.hostname or ""),
    }


def was_sent(error: httpx2.TransportError) -> bool:
    """Return whether the server may have seen the request."""
    return not isinstance(error, _BEFORE_SENDING)
