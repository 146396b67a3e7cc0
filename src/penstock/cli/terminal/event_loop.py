"""Commands that run an event loop: how they end, and what Ctrl-C and SIGTERM do to them.

This is apart from `exits` because commands without a loop start faster if they do not import asyncio.

Above it: commands that open a database or serve. Below it: asyncio.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

from penstock.app.event_loop import tuned_collector
from penstock.base.errors import PenstockError
from penstock.cli.declaration import Exit
from penstock.cli.terminal.exits import report_problem
from penstock.cli.terminal.values import UsageError

__all__ = ["Interrupted", "exit_with_async", "hold_signals", "until_interrupted"]

T = TypeVar("T")


def exit_with_async(
    work: Callable[[], Coroutine[Any, Any, int]],
    *,
    as_json: bool = False,
    loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> None:
    """Run a command to its end and exit with its code.

    `loop` makes the event loop of a command that runs for long; garbage is collected less often then.
    """
    try:
        with tuned_collector() if loop else nullcontext(), asyncio.Runner(loop_factory=loop) as runner:
            code = runner.run(work())
    except (UsageError, PenstockError) as error:
        report_problem(error, as_json=as_json)
        code = 2
    if code:
        raise Exit(code)


@dataclass(frozen=True, slots=True)
class Interrupted:
    """Ctrl-C was pressed, or the process got SIGTERM."""


_HELD: list[int] = []
_LEAVING: list[Callable[[], None]] = []


def hold_signals() -> None:
    """Hold signals until `until_interrupted`, which is called next: the user must still see what was just started."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _hold, number)


def _hold(number: int) -> None:
    # The loop may deliver an earlier signal after `until_interrupted` has begun and has checked the held ones.
    if _LEAVING:
        _LEAVING[-1]()
    else:
        _HELD.append(number)


async def until_interrupted(work: Coroutine[Any, Any, T]) -> T | Interrupted:
    """Work until it is done, or until Ctrl-C or SIGTERM; a second Ctrl-C ends the process at once."""
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    interrupted = asyncio.Event()

    def leave() -> None:
        interrupted.set()
        _stop_listening(loop)
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, leave)
    _LEAVING.append(leave)
    if _HELD:
        _HELD.clear()
        loop.call_soon(leave)
    try:
        return await task
    except asyncio.CancelledError:
        if interrupted.is_set():
            return Interrupted()
        raise
    finally:
        _LEAVING.remove(leave)
        if not interrupted.is_set():
            _stop_listening(loop)


def _stop_listening(loop: asyncio.AbstractEventLoop) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_DFL)
