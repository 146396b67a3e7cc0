"""Leaving with Ctrl-C, also at the moment between the start of a run and watching it."""

from __future__ import annotations

import asyncio
import os
import signal

from penstock.cli.terminal.event_loop import Interrupted, hold_signals, until_interrupted
from tests.waiting import SECONDS_MAX


def test_a_signal_that_came_before_the_watching_ends_it_at_once() -> None:
    async def work() -> object:
        hold_signals()
        os.kill(os.getpid(), signal.SIGINT)
        async with asyncio.timeout(SECONDS_MAX):
            return await until_interrupted(asyncio.Event().wait())

    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    try:
        assert isinstance(asyncio.run(work()), Interrupted)
    finally:
        signal.signal(signal.SIGINT, before[0])
        signal.signal(signal.SIGTERM, before[1])
