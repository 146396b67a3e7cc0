"""Settings of a client: the server's address, the key, and the timeouts.

Above it: the clients. Below it: the environment.
"""

from __future__ import annotations

import ipaddress
import os
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from penstock.base.errors import Rejected
from penstock.client.retries import RETRIES_DEFAULT, RetryPolicy

__all__ = ["KEY_VARIABLE", "SERVER_DEFAULT", "SERVER_VARIABLE", "ClientOptions", "is_loopback"]

SERVER_VARIABLE = "PENSTOCK_SERVER"
KEY_VARIABLE = "PENSTOCK_API_KEY"
SERVER_DEFAULT = "http://127.0.0.1:5151"
_BASE_PATH = "/api/v0"
_SCHEMES = ("http", "https")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """Where and how to call. The key is not part of the representation."""

    server: str
    base_url: str
    key: str | None = field(repr=False)
    timeout_seconds: float
    retry_policy: RetryPolicy = field(repr=False)

    @classmethod
    def of(
        cls,
        server: str | None = None,
        key: str | None = None,
        *,
        timeout_seconds: float = 30.0,
        retries: int = RETRIES_DEFAULT,
        environment: Mapping[str, str] | None = None,
    ) -> ClientOptions:
        """Build the options from arguments; missing ones come from the environment."""
        variables = os.environ if environment is None else environment
        address = (server or variables.get(SERVER_VARIABLE) or SERVER_DEFAULT).rstrip("/")
        return cls(
            server=address,
            base_url=_base_url(address),
            key=key or variables.get(KEY_VARIABLE) or None,
            timeout_seconds=timeout_seconds,
            retry_policy=RetryPolicy(retries=retries, random=random.random),
        )

    def headers(self) -> dict[str, str]:
        """Return the headers of every request."""
        found = {"User-Agent": "penstock-python", "Accept": "application/json"}
        return found if self.key is None else {**found, "Authorization": f"Bearer {self.key}"}


def _base_url(address: str) -> str:
    """Return the base URL: an address without a path gets the default path, one with a path is used unchanged."""
    parts = urlsplit(address)
    if parts.scheme not in _SCHEMES or not parts.hostname:
        message = "the address of a server begins with http:// or https:// and a host"
        raise Rejected("SERVER_ADDRESS_INVALID", message, f"for example {SERVER_DEFAULT}")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        message = "the address of a server has no user, password, query or fragment"
        raise Rejected("SERVER_ADDRESS_INVALID", message, "give the key as `key` or in PENSTOCK_API_KEY")
    return address if parts.path else address + _BASE_PATH


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine itself."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
