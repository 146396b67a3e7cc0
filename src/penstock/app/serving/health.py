"""The health of a server: its store, probed by using it, and the progress of this process's runs.

Above it: `server`, for `/readyz` and `system.health`. Below it: the probe of the storage, the driver's watchdog.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from penstock.app.penstock import Penstock
from penstock.base.errors import PenstockError
from penstock.operations.system.health import RUNS_CHECK

__all__ = ["health_checks"]

# A store that takes longer than this to answer delays its callers.
_SLOW_SECONDS = 5.0


def health_checks(penstock: Penstock) -> Callable[[], Awaitable[dict[str, str]]]:
    """A function that checks everything and returns, by name, `ok` or what is wrong."""

    async def look() -> dict[str, str]:
        return {"store": await _store(penstock), RUNS_CHECK: _runs(penstock)}

    return look


async def _store(penstock: Penstock) -> str:
    started = time.perf_counter()
    try:
        await penstock.storage.probe()
    except PenstockError as error:
        return error.code
    except OSError:
        return "STORE_UNREACHABLE"
    return "ok" if time.perf_counter() - started < _SLOW_SECONDS else "slow"


def _runs(penstock: Penstock) -> str:
    """How many runs of this process are stuck despite the watchdog; their ids are in the log."""
    stuck = 0 if penstock.driver is None else len(penstock.driver.abandoned.stuck)
    return f"{stuck} stuck" if stuck else "ok"
