"""Models that are registered in the database of a project, for checks of documents beside it.

Above it: `findings`. Below it: the storage. It opens the database only if there is one, and changes nothing.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from penstock.app.drivers import has_database, make_storage
from penstock.base import limits
from penstock.base.errors import PenstockError
from penstock.base.ids import DEFAULT_TENANT
from penstock.runtime.tables.resources import list_resources

__all__ = ["registered_models"]


def registered_models(database: Path) -> frozenset[str]:
    """The models of the default tenant, which the workflow files of a project belong to; none without a database."""
    try:
        if not has_database(database):
            return frozenset()
        # In a thread, because some commands that check documents run an event loop already.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, _names(database)).result()
    except PenstockError:
        return frozenset()  # the command that opens the database says what is wrong with it


async def _names(database: Path) -> frozenset[str]:
    storage = make_storage(database)
    await storage.store.open()
    try:
        if storage.database is None:
            return frozenset()
        page = await list_resources(storage.database, DEFAULT_TENANT, "model", limit=limits.PAGE_LIMIT_MAX)
        return frozenset(row.resource_id for row in page.rows)
    finally:
        await storage.store.close()
