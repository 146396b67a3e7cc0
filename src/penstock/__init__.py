"""Penstock: workflows as durable, governed tools.

    from penstock import Penstock, step

The version is kept here and nowhere else. The names below are the public ones for programs that embed Penstock.
To read the source, begin with ARCHITECTURE.md. Read `app` first to see how the parts are put together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.base.lazy_import import lazy_exports

if TYPE_CHECKING:
    from penstock.app.event_loop import run
    from penstock.app.penstock import Penstock
    from penstock.base.errors import (
        Conflict,
        CorruptHistory,
        Denied,
        LimitExceeded,
        NotFound,
        PenstockError,
        Rejected,
        Unavailable,
    )
    from penstock.runtime.activities.progress import Progress
    from penstock.runtime.run_handle import Run, RunFailed
    from penstock.runtime.steps.registry import StepContext, StepFailed, step

__all__ = [
    "Conflict",
    "CorruptHistory",
    "Denied",
    "LimitExceeded",
    "NotFound",
    "Penstock",
    "PenstockError",
    "Progress",
    "Rejected",
    "Run",
    "RunFailed",
    "StepContext",
    "StepFailed",
    "Unavailable",
    "__version__",
    "run",
    "step",
]

__version__ = "0.1.0"

_MODULES = {
    "Conflict": "penstock.base.errors",
    "CorruptHistory": "penstock.base.errors",
    "Denied": "penstock.base.errors",
    "LimitExceeded": "penstock.base.errors",
    "NotFound": "penstock.base.errors",
    "Penstock": "penstock.app.penstock",
    "PenstockError": "penstock.base.errors",
    "Progress": "penstock.runtime.activities.progress",
    "Rejected": "penstock.base.errors",
    "Run": "penstock.runtime.run_handle",
    "RunFailed": "penstock.runtime.run_handle",
    "StepContext": "penstock.runtime.steps.registry",
    "StepFailed": "penstock.runtime.steps.registry",
    "Unavailable": "penstock.base.errors",
    "run": "penstock.app.event_loop",
    "step": "penstock.runtime.steps.registry",
}


# Every import of a module of ours runs this file first. Loading the whole runtime here would make each of them slow and
# would turn every import inside the package into a cycle, so a name is imported when it is first read (PEP 562).
__getattr__ = lazy_exports(__name__, _MODULES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
