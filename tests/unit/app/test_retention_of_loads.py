"""A load whose process died ends by itself, and its branch takes other writes again."""

from __future__ import annotations

import subprocess
import sys
from itertools import count
from pathlib import Path

from penstock.app.gate import open_gate
from penstock.app.penstock import Penstock
from penstock.base import limits
from penstock.base.clock import ManualClock
from penstock.runtime.ports.graphs import BranchBusy, Mutated
from tests.conformance.graphs.killed_writer import PEOPLE, base
from tests.conformance.graphs.worlds import AT, QUERIES, World, checked, open_sqlite
from tests.conformance.stores import run_bounded
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[3]
# Stamps of the killed process are some seconds after AT.
STAMPED = AT + 60_000


def test_a_branch_takes_writes_again_after_the_process_that_loaded_into_it_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "penstock.db"

    async def prepare() -> None:
        async with open_sqlite(path) as store:
            await base(await World(store).create())

    run_bounded(prepare())
    command = [sys.executable, "-m", "tests.conformance.graphs.killed_writer", str(path), "load", "3", "after"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == -9, (done.stdout, done.stderr)

    async def body() -> None:
        clock = ManualClock(AT)
        async with Penstock.open(path, clock=clock, perform=False) as penstock, open_gate(penstock) as gate:
            store = gate.services.graphs
            assert store is not None
            world = World(store, numbers=count(50_000))
            world.queries = checked(QUERIES, world.schema)
            refused = await world.run("add", name="new", age=1)
            assert isinstance(refused, BranchBusy), refused
        clock = ManualClock(STAMPED + limits.GRAPH_LOAD_LEASE_MS)
        async with Penstock.open(path, clock=clock, perform=False) as penstock, open_gate(penstock) as gate:
            store = gate.services.graphs
            assert store is not None
            world = World(store, numbers=count(60_000))
            world.queries = checked(QUERIES, world.schema)

            async def takes_writes() -> bool:
                return isinstance(await world.run("add", name="new", age=1), Mutated)

            await until(takes_writes)
            assert len(await world.rows("people")) == PEOPLE + 1

    run_bounded(body())
