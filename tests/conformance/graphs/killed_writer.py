"""A process that loads, merges or changes a schema, and is killed at a chosen commit of its file.

    python -m tests.conformance.graphs.killed_writer FILE load|merge|schema|flatten NUMBER before|after

The file holds the graph of `base`. NUMBER counts transactions; before or after it is committed, the process kills
itself. If the work is done earlier, it prints `done`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from itertools import count
from pathlib import Path
from typing import Any

from penstock.graph.versions.entities import LoadMode
from penstock.runtime.ports.graphs import BranchesMerged, Flattened, LoadPublished, SchemaApplied
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.stores.sqlite.graphs.store import SqliteGraphStore
from penstock.runtime.stores.sqlite.group_commit import GroupCommitWriter
from penstock.runtime.tables.runs.store import RunStore
from tests.conformance.graphs.worlds import SCHEMA, World, schema_of
from tests.opened_database import sqlite_of

__all__ = ["NEW_SCHEMA", "PEOPLE", "base"]

PEOPLE = 1_200
NEW_SCHEMA = SCHEMA.replace("bio: String?", "bio: String?  nick: String?") + "\nnode Place { name: String @key }"


async def base(world: World) -> None:
    """The graph that is there before."""
    await world.loaded([world.person(f"p{number:05d}", age=1) for number in range(PEOPLE)])
    await world.fork("draft")
    await world.loaded([world.person(f"p{number:05d}", age=2) for number in range(PEOPLE)], branch="draft")
    await world.do("remove", branch="draft", name="p00007")


async def work(world: World, what: str) -> Any:
    """What the process is killed at."""
    match what:
        case "load":
            records = [world.person(f"p{number:05d}", age=3) for number in range(100, PEOPLE + 500)]
            return await world.load(records, mode=LoadMode.OVERWRITE)
        case "merge":
            return await world.merge("draft")
        case "flatten":
            return await world.store.flatten(world.ref, "draft", stamp=world.stamp())
        case _:
            return await world.store.apply_schema(
                world.ref, schema_of(NEW_SCHEMA), source=NEW_SCHEMA, stamp=world.stamp()
            )


def _kill_at(number: int, when: str) -> None:
    commit = GroupCommitWriter._commit_transaction
    left = number

    def commit_or_die(self: GroupCommitWriter) -> None:
        nonlocal left
        left -= 1
        if left == 0 and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        commit(self)
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    GroupCommitWriter._commit_transaction = commit_or_die  # type: ignore[method-assign]  # the fault to inject


async def main(path: Path, what: str, number: int, when: str) -> None:
    """Write, and die."""
    store = RunStore(SqliteDatabase(path))
    await store.open()
    world = World(SqliteGraphStore(sqlite_of(store)), numbers=count(20_000))
    _kill_at(number, when)
    outcome = await work(world, what)
    assert isinstance(outcome, LoadPublished | BranchesMerged | Flattened | SchemaApplied), outcome
    await store.close()
    print("done")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]))
