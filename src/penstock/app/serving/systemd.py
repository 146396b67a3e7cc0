"""Notifications to systemd, if it started this process with `Type=notify`.

Above it: the commands that serve. Below it: a socket that the manager names in the environment.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress

__all__ = ["notify_systemd"]

_ABSTRACT = "@"


def notify_systemd(state: str) -> None:
    """Send `READY=1` or `STOPPING=1`. Does nothing without a manager that listens."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    target = "\0" + address[1:] if address.startswith(_ABSTRACT) else address
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as messenger:
        messenger.connect(target)
        messenger.sendall(state.encode())
