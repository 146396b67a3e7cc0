"""The Python client of a Penstock server, without anything of the server.

    from penstock.client import Client

`Client` waits, `AsyncClient` is awaited; both have a typed method for every operation, and `call` for any by its name.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.client.asynchronous.client import AsyncClient
    from penstock.client.errors import (
        CallConflict,
        CallDenied,
        CallFailed,
        CallLimited,
        CallNotFound,
        CallRejected,
        CallTimedOut,
        CallUnavailable,
    )
    from penstock.client.events import StreamEvent
    from penstock.client.sync.client import Client

__all__ = [
    "AsyncClient",
    "CallConflict",
    "CallDenied",
    "CallFailed",
    "CallLimited",
    "CallNotFound",
    "CallRejected",
    "CallTimedOut",
    "CallUnavailable",
    "Client",
    "StreamEvent",
]

_ERRORS = "penstock.client.errors"
_HOMES = {
    "AsyncClient": "penstock.client.asynchronous.client",
    "CallConflict": _ERRORS,
    "CallDenied": _ERRORS,
    "CallFailed": _ERRORS,
    "CallLimited": _ERRORS,
    "CallNotFound": _ERRORS,
    "CallRejected": _ERRORS,
    "CallTimedOut": _ERRORS,
    "CallUnavailable": _ERRORS,
    "Client": "penstock.client.sync.client",
    "StreamEvent": "penstock.client.events",
}


# As in the package above: a name is fetched when somebody asks for it, so that one kind of client does not load both.
def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
