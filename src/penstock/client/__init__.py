"""The Python client of a Penstock server, without anything of the server.

    from penstock.client import Client

`Client` waits, `AsyncClient` is awaited; both have a typed method for every operation, and `call` for any by its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.base.lazy_import import lazy_exports

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
_MODULES = {
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


# A name is imported when it is first read, so that one kind of client does not load both.
__getattr__ = lazy_exports(__name__, _MODULES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
