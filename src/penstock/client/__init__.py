"""The Python client of a Penstock server; it imports nothing of the server, only `base`.

    from penstock.client import Client

`Client` is synchronous, `AsyncClient` is for asyncio. Both have a typed method for every operation, and `call` for any
operation by name. `sync` is generated from `asynchronous`. Read `asynchronous` first.
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


# A name is imported on first access, so that using one kind of client does not load both.
__getattr__ = lazy_exports(__name__, _MODULES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
