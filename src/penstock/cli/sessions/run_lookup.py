"""Saying when nobody does the work of a run.

Above it: `penstock runs ...`, `local_gate`. Below it: `Penstock`, `sessions`.
"""

from __future__ import annotations

import sys

from rich.text import Text

from penstock.app.penstock import Penstock
from penstock.cli.sessions.sessions import Workshop, command_text, live_workers
from penstock.cli.terminal.report import console_for

__all__ = ["nobody_works", "say_nobody_works"]


async def nobody_works(penstock: Penstock, run_id: str) -> bool:
    """True when there is work to do for a run, now or later, and nobody to do it."""
    row = await penstock.store.row(run_id)
    if row is None or not (row.has_work or (row.wake_at is not None and not row.terminal)):
        return False
    return not await live_workers(penstock)


async def say_nobody_works(penstock: Penstock, run_id: str, workshop: Workshop) -> None:
    """Say it when there is work and nobody to do it."""
    if await nobody_works(penstock, run_id):
        worker = command_text("worker", *workshop.arguments())
        told = f"note: nobody performs the work in {workshop.database} now; start  {worker}"
        console_for(sys.stderr).print(Text(told, style="yellow"))
