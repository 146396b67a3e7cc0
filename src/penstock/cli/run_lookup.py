"""Finding the run that a command names, and saying when nobody works on it.

Above it: `penstock runs ...`. Below it: `Penstock`, `sessions`.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.text import Text

from penstock.app.penstock import Penstock
from penstock.cli.report import console_for
from penstock.cli.sessions import Workshop, command_text, live_workers
from penstock.cli.values import UsageError
from penstock.runtime.ports import RunQuery, RunRow

__all__ = ["RunArgument", "find_run", "nobody_works", "say_nobody_works"]

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="The run's id, or the beginning of it.")]


async def find_run(penstock: Penstock, run_id: str) -> RunRow:
    """A run by its id or by the beginning of it, if only one begins like that."""
    row = await penstock.store.row(run_id)
    if row is not None:
        return row
    page = await penstock.runs(RunQuery(text=run_id, limit=10))
    # A parent's id is the beginning of its children's ids: naming it means the parent.
    found = [item for item in page.rows if item.run_id.startswith(run_id)]
    found = [item for item in found if not any(item.run_id.startswith(f"{other.run_id}:") for other in found)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"several runs begin with {run_id}: {', '.join(item.run_id for item in found)}")
    raise UsageError(f"there is no run {run_id}; `penstock runs list` shows the runs")


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
