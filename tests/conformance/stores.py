"""What the conformance suite of stores needs: stores on every database, runs to put into them, and all that one holds.

A new database takes part by an entry in `DATABASES`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.base.json import JsonObject
from penstock.engine.records import Record
from penstock.runtime.ports.runs import (
    DefinitionRow,
    RunQuery,
    RunRow,
    RunWrite,
    ScheduleRow,
    StoredRun,
    WorkerRow,
)
from penstock.runtime.tables.runs.store import RunStore
from penstock.runtime.tables.schedules import list_schedules
from penstock.runtime.tables.workers import list_workers
from tests.conformance.databases import DATABASES
from tests.conformance.run_model import ModelOfRuns
from tests.waiting import SECONDS_MAX

__all__ = [
    "AT",
    "contents",
    "contents_of_runs",
    "definition",
    "listed",
    "on_every_store",
    "record",
    "run_bounded",
    "schedule",
    "start",
    "step",
    "worker",
]

AT = 1_767_225_600_000
# Nothing here takes more than a moment; a test that does is stuck.

Scenario = Callable[[Any], Coroutine[Any, Any, None]]


def run_bounded(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end, but not for ever."""

    async def bounded() -> None:
        async with asyncio.timeout(SECONDS_MAX):
            await work

    asyncio.run(bounded())


def on_every_store(scenario: Scenario) -> Callable[..., None]:
    """Make a test of an async function that takes a store: it runs once on each."""

    @pytest.mark.parametrize("kind", DATABASES)
    def test(kind: str, request: pytest.FixtureRequest) -> None:
        store = RunStore(DATABASES[kind](request))

        async def with_store() -> None:
            await store.open()
            try:
                await scenario(store)
            finally:
                await store.close()

        run_bounded(with_store())

    test.__name__ = scenario.__name__
    test.__doc__ = scenario.__doc__
    return test


def record(seq: int, payload: JsonObject | None = None) -> Record:
    """A record as any other."""
    return Record(seq, "event", "StateUpdated", {"number": seq} if payload is None else payload, AT + seq)


def start(run_id: str = "r_1", *, records: int = 2, payload: JsonObject | None = None, **row: Any) -> RunWrite:
    """A decision that begins a run."""
    new = RunRow(
        run_id=run_id,
        workflow_name="refund",
        workflow_version="1.0.0",
        definition_hash="hash-1",
        status="running",
        seq=records,
        created_at=AT,
        updated_at=AT,
    )
    made = tuple(record(seq, payload) for seq in range(1, records + 1))
    return RunWrite(expected_seq=0, row=replace(new, **row), records=made)


def step(before: RunWrite, *, records: int = 1, payload: JsonObject | None = None, **row: Any) -> RunWrite:
    """A decision that follows another."""
    seq = before.row.seq
    made = tuple(record(number, payload) for number in range(seq + 1, seq + records + 1))
    after = replace(before.row, seq=seq + records, **row)
    return RunWrite(expected_seq=seq, expected_epoch=before.row.epoch, row=after, records=made)


def definition(number: int, *, name: str = "refund") -> DefinitionRow:
    """A definition as any other."""
    document: JsonObject = {"penstock": "v1", "name": name, "version": f"{number}.0.0"}
    return DefinitionRow(
        hash=f"hash-{number}", name=name, version=f"{number}.0.0", document=document, created_at=AT + number
    )


def schedule(schedule_id: str = "nightly", **changes: Any) -> ScheduleRow:
    """A schedule as any other."""
    new = ScheduleRow(schedule_id=schedule_id, workflow_name="refund", spec={"cron": "0 3 * * *"}, next_at=AT)
    return replace(new, **changes)


def worker(worker_id: str, beats: int = 1, seen_at: int = AT) -> WorkerRow:
    """A worker as it is listed."""
    return WorkerRow(worker_id=worker_id, beats=beats, seen_at=seen_at)


async def listed(store: RunStore | ModelOfRuns, **query: Any) -> list[str]:
    """The ids of the runs that a query finds, over all pages."""
    found: list[str] = []
    cursor: str | None = None
    while True:
        page = await store.list_runs(RunQuery(**query, cursor=cursor))
        found += [row.run_id for row in page.rows]
        if page.next_cursor is None:
            return found
        cursor = page.next_cursor


async def contents(store: RunStore) -> dict[str, Any]:
    """Everything that a store holds, as far as anybody can see."""
    return {
        **await contents_of_runs(store),
        "workers": await list_workers(store.database),
        "schedules": await list_schedules(store.database),
    }


async def contents_of_runs(store: RunStore | ModelOfRuns) -> dict[str, Any]:
    """All runs and definitions of a store, or of a model of it."""
    run_ids = await listed(store, limit=1_000)
    runs: dict[str, StoredRun | None] = {run_id: await store.load(run_id) for run_id in run_ids}
    hashes = {run.row.definition_hash for run in runs.values() if run is not None}
    newest = await store.definitions.list_newest(tenant=None)
    return {
        "order": run_ids,
        "runs": runs,
        "rows": {run_id: await store.row(run_id) for run_id in run_ids},
        "labelled": {
            f"{name}={value}": sorted(await listed(store, label=(name, value)))
            for run in runs.values()
            if run is not None
            for name, value in run.row.labels.items()
        },
        "due": await store.due(owner="anybody", now=2**62, limit=10_000),
        "next_wake_at": await store.next_wake_at(after=0),
        "tenants": {name: await listed(store, tenant=name) for name in ("default", "acme", "other")},
        "found": {text: await listed(store, text=text) for text in ("r_", "fund", "blue")},
        "newest": newest,
        "versions": {
            f"{name} of {tenant}": (await store.definitions.list_versions(name, tenant=tenant, limit=100)).rows
            for name in ("refund", "onboarding")
            for tenant in ("default", "acme", "other")
        },
        "definitions": {found: await store.definitions.find(found) for found in hashes | {row.hash for row in newest}},
    }
