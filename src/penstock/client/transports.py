"""How the clients use httpx2: settings of both kinds, and what its errors say.

Above it: the clients. Below it: httpx2.
"""

from __future__ import annotations

import ipaddress
from typing import Any
from urllib.parse import urlsplit

import httpx2

from penstock.client.options import ClientOptions

__all__ = ["http_settings", "is_loopback", "was_sent"]

# Errors from before the request went out: the server has not seen anything of it.
_BEFORE_SENDING = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)


def http_settings(options: ClientOptions) -> dict[str, Any]:
    """The arguments of an httpx2 client."""
    parts = urlsplit(options.base_url)
    return {
        "headers": options.headers(),
        "timeout": options.timeout_seconds,
        # A redirect would carry the key to wherever it leads.
        "follow_redirects": False,
        # Plain HTTP needs no certificates, and reading them takes as long as everything else here.
        "verify": parts.scheme == "https",
        # A proxy cannot reach the loopback of this machine.
        "trust_env": not is_loopback(parts.hostname or ""),
    }


def is_loopback(host: str) -> bool:
    """Whether a host is this machine itself."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def was_sent(error: httpx2.TransportError) -> bool:
    """Whether the server may have seen the request."""
    return not isinstance(error, _BEFORE_SENDING)
