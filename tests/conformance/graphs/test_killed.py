"""A process that is killed during a load, a merge, a flattening or a schema change leaves the old commit or the new."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import subprocess
import sys
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from penstock.runtime.ports.graphs import GraphRow
from tests.conformance.graphs.killed_writer import PEOPLE, base, work
from tests.conformance.graphs.worlds import QUERIES, World, checked, open_sqlite
from tests.conformance.stores import run_bounded

ROOT = Path(__file__).resolve().parents[3]
FAR = 1 << 60


async def state(world: World) -> tuple[Any, ...]:
    """Everything that can be seen: both branches and the schema."""
    row = await world.store.graph(world.ref)
    assert isinstance(row, GraphRow)
    return await world.rows("people"), await world.rows("people", branch="draft"), row.schema_version


def prepared(folder: Path, what: str) -> tuple[Path, Any, Any]:
    """A file with the base, its state, and the state after the work, from a process that is not killed."""
    path, copy = folder / "base.db", folder / "done.db"
    states: list[Any] = []

    async def scenario() -> None:
        async with open_sqlite(path) as store:
            world = await World(store).create()
            await base(world)
            states.append(await state(world))
        shutil.copy(path, copy)
        async with open_sqlite(copy) as store:
            world = World(store, queries=checked(QUERIES, world.schema), numbers=count(20_000))
            await work(world, what)
            states.append(await state(world))

    run_bounded(scenario())
    return path, states[0], states[1]


async def after_a_crash(path: Path) -> tuple[Any, ...]:
    """The state as the next process finds it; it can also write again."""
    async with open_sqlite(path) as store:
        world = World(store, numbers=count(50_000))
        world.queries = checked(QUERIES, world.schema)
        found = await state(world)
        await store.abandon_loads(before=FAR)
        assert await state(world) == found
        await world.do("add", name="zz-after", age=1)
        await world.do("add", branch="draft", name="zz-after", age=1)
        again = await state(world)
        assert [row for row in again[0] if row[0] != "zz-after"] == list(found[0])
        assert [row for row in again[1] if row[0] != "zz-after"] == list(found[1])
        return found


@pytest.mark.parametrize(
    ("what", "moments"),
    [
        ("load", [(1, "before"), (2, "after"), (6, "before")]),
        ("merge", [(1, "after"), (3, "before"), (4, "after")]),
        ("schema", [(1, "before"), (1, "after")]),
        ("flatten", [(2, "after")]),
    ],
)
def test_the_next_process_finds_the_old_commit_or_the_new_one(
    what: str, moments: list[tuple[int, str]], tmp_path: Path
) -> None:
    begun, old, new = prepared(tmp_path, what)
    assert len(old[0]) == PEOPLE
    seen = []
    for number, when in moments:
        path = tmp_path / f"{what}-{number}-{when}.db"
        shutil.copy(begun, path)
        command = [sys.executable, "-m", "tests.conformance.graphs.killed_writer", str(path), what, str(number), when]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
        assert done.returncode == -9, (number, when, done.stdout, done.stderr)
        found = asyncio.run(after_a_crash(path))
        assert found in (old, new)
        seen.append(found == old)
        connection = sqlite3.connect(path)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        connection.close()
    assert seen[0] or moments[0] == (1, "after")
