"""Ids of requests, for every surface of a process."""

from __future__ import annotations

from itertools import count
from secrets import token_hex

__all__ = ["new_request_id"]

_PROCESS = token_hex(8)
_NUMBERS = count(1)


def new_request_id() -> str:
    """A new request id: a prefix for this process and a request number. No other process uses the same prefix."""
    return f"{_PROCESS}{next(_NUMBERS):08x}"
