"""Steps that run in a process of their own; another process has to find them, so they have a module to themselves."""

import os
import sys
from dataclasses import dataclass

from penstock.runtime.steps.registry import StepContext, StepFailed, step

__all__ = ["add", "crash", "fail", "leave", "raise_bug", "spin", "where"]


@dataclass
class Sum:
    total: int
    process: int


@step(process=True)
def add(one: int, other: int) -> Sum:
    return Sum(one + other, os.getpid())


@step(process=True, name="where.am.i")
def where(*, context: StepContext) -> dict[str, object]:
    context.heartbeat({"at": 1})
    context.progress(0.5, "half")
    return {"process": os.getpid(), "run": context.run_id, "key": context.idempotency_key}


@step(process=True)
def fail() -> None:
    raise StepFailed("CARD_DECLINED", "no money", retryable=False)


@step(process=True)
def raise_bug() -> None:
    raise ZeroDivisionError("nothing to divide by")


@step(process=True)
def leave() -> None:
    sys.exit(3)


@step(process=True)
def crash() -> None:
    os._exit(7)


@step(process=True)
def spin(context: StepContext) -> None:
    context.heartbeat(os.getpid())
    while True:
        pass
