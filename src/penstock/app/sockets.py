"""The listening socket of a server. It is opened first, so that a second server fails before it touches the store.

Above it: the commands that serve. Below it: sockets.
"""

from __future__ import annotations

import ipaddress
import socket

from penstock.base.errors import Unavailable

__all__ = ["address_of", "is_loopback", "listen"]

# Connections that wait to be accepted; the system may grant fewer.
_BACKLOG = 2_048


def listen(host: str, port: int) -> socket.socket:
    """Listen on an address. Raises `Unavailable` if it is in use or is not an address of this machine."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With an explicit protocol: asyncio disables Nagle's algorithm only for sockets that are declared as TCP.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        message = f"cannot listen on {host}:{port}: {error.strerror or error}"
        hint = "choose another address with --port or --host, or stop the program that listens there"
        raise Unavailable("ADDRESS_UNAVAILABLE", message, hint) from error
    return listener


def is_loopback(host: str) -> bool:
    """True if only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def address_of(host: str, listener: socket.socket) -> str:
    """The address of a server, for people, with the port if the system chose it."""
    place = f"[{host}]" if ":" in host else host
    return f"http://{place}:{listener.getsockname()[1]}"
