"""Following a run: notify a listener when the run, or a child of it, has moved.

The gate has decided before who may follow which run.

Above it: surfaces that notify clients. Below it: the store, the host, `children`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from penstock.base import limits
from penstock.base.errors import PenstockError
from penstock.base.ids import id_in_tenant
from penstock.operations.gate.context import Services
from penstock.operations.runs.children import ChildRuns, ChildRunWatcher
from penstock.runtime.ports.runs import RunRow

__all__ = ["Position", "execution_position", "follow_execution"]


_LOGGER = logging.getLogger("penstock.operations")


@dataclass(frozen=True, slots=True)
class Position:
    """How far a run is: its run, and the number of the run's last record."""

    run_id: str
    sequence: int


async def execution_position(services: Services, tenant: str, execution_id: str) -> Position | None:
    """Return how far a run of a tenant is; None if there is no such run."""
    store = services.store
    row = await store.row(id_in_tenant(tenant, execution_id)) or await store.row(execution_id)
    return Position(row.run_id, row.seq) if row is not None and row.tenant == tenant else None


async def follow_execution(
    services: Services, begun: Position, moved: Callable[[], None], child_moved: Callable[[], None]
) -> None:
    """Call `moved` or `child_moved` whenever a run or a child of it moves, until it has ended or is gone."""
    run_id, seen = begun.run_id, begun.sequence
    watcher = ChildRunWatcher(services.host, services.run_memory)
    while True:
        try:
            with ExitStack() as watching:
                waits = watching.enter_context(services.host.watched(run_id, after_seq=seen))
                row = await services.store.row(run_id)
                if row is not None and row.seq <= seen and not row.terminal:
                    children = await _look_at_children(services, watcher, row, watching)
                    if children.moved:
                        child_moved()
                    else:
                        await asyncio.wait((waits, *children.waits), return_when=asyncio.FIRST_COMPLETED)
                    row = await services.store.row(run_id)
        except PenstockError as error:
            _LOGGER.warning("cannot follow run %s at the moment: %s", run_id, error.code)
            await asyncio.sleep(limits.EXPOSED_REREAD_MS / 1000)
            continue
        if row is None or row.seq > seen:
            moved()
        if row is None or row.terminal:
            return
        seen = row.seq


async def _look_at_children(
    services: Services, watcher: ChildRunWatcher, row: RunRow, watching: ExitStack
) -> ChildRuns:
    state = await services.host.read(row.run_id) if row.status.startswith("waiting_") else None
    return await watcher.look(state, watching) if state is not None and state.children else ChildRuns()
