"""The listening socket of a server: opened first of all, so that a second server fails before it touches the store.

Above it: the commands that serve. Below it: sockets.
"""

from __future__ import annotations

import ipaddress
import socket

from penstock.base.errors import Unavailable

__all__ = ["address_of", "is_loopback", "listen"]

# Connections that wait to be taken; the system may grant fewer.
_BACKLOG = 2_048


def listen(host: str, port: int) -> socket.socket:
    """Take an address; `Unavailable` when somebody else has it, or when there is no such address here."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named in full: asyncio turns Nagle's algorithm off only for sockets that say that they are TCP.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        message = f"cannot listen on {host}:{port}: {error.strerror or error}"
        hint = "choose another with --port or --host, or stop what listens there"
        raise Unavailable("ADDRESS_UNAVAILABLE", message, hint) from error
    return listener


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def address_of(host: str, listener: socket.socket) -> str:
    """Where a server answers, for people; a port that the system chose is in it."""
    place = f"[{host}]" if ":" in host else host
    return f"http://{place}:{listener.getsockname()[1]}"
