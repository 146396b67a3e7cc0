"""Schedules, workers, and what runs spend."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from penstock.definitions.model import AgentLimits
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.platform import CallRecord
from penstock.runtime.spending import CALLER_LABEL, Spent
from penstock.runtime.tables.runs.store import RunStore
from penstock.runtime.tables.schedules import delete_schedule, list_schedules, put_schedule
from penstock.runtime.tables.spending import read_spending, spend
from penstock.runtime.tables.workers import list_workers, record_heartbeat, register_worker, remove_worker
from tests.conformance.families.family import Family
from tests.conformance.platform_stores import SEAL, entry
from tests.conformance.stores import AT, schedule, start

__all__ = ["SCHEDULES", "SPENDING", "WORKERS"]

SCHEDULES = Family(
    given=[lambda database: put_schedule(database, schedule()), lambda database: put_schedule(database, schedule("b"))],
    changes={
        "put_schedule": lambda database: put_schedule(database, schedule(paused=True)),
        "put_schedule: expected": lambda database: put_schedule(
            database, schedule(next_at=AT + 1), expected=schedule()
        ),
        "put_schedule: also expected": lambda database: put_schedule(
            database, schedule(next_at=AT + 2), expected=schedule(), call=CallRecord(entry=entry(82), seal=SEAL)
        ),
        "put_schedule: new": lambda database: put_schedule(database, schedule("c"), expected=None),
        "put_schedule: new, too": lambda database: put_schedule(database, schedule("c", paused=True), expected=None),
        "delete_schedule": lambda database: delete_schedule(database, "nightly"),
        "delete_schedule: told": lambda database: delete_schedule(
            database, "c", call=CallRecord(entry=entry(83), seal=SEAL)
        ),
    },
    reads={
        "list_schedules": list_schedules,
        "list_schedules: of a tenant": lambda database: list_schedules(database, tenant="default"),
    },
)

WORKERS = Family(
    given=[
        lambda database: register_worker(database, "w1", at=AT),
        lambda database: register_worker(database, "w4", at=AT),
    ],
    changes={
        "register_worker": lambda database: register_worker(database, "w2", at=AT + 1),
        "register_worker: again": lambda database: register_worker(database, "w1", at=AT + 2),
        "record_heartbeat": lambda database: record_heartbeat(database, "w1", at=AT + 3),
        "remove_worker": lambda database: remove_worker(database, "w1"),
        "remove_worker: after its last heartbeat": lambda database: remove_worker(database, "w1", beats=2),
        "remove_worker: another": lambda database: remove_worker(database, "w4", beats=1),
    },
    reads={"list_workers": list_workers},
)

ONCE = Spent(turns=1, requests=1, input_tokens=3, cost=2)
FEW = AgentLimits(turns=2)


async def tree(database: Database) -> None:
    """A run that has spent one of two turns, two that it called, and a child of the first of them."""
    store = RunStore(database)
    called = {CALLER_LABEL: "r_top"}
    ended: dict[str, Any] = {"status": "completed", "terminal": True}
    await store.append(start("r_top", created_at=AT + 101, **ended))
    await store.append(start("r_left", created_at=AT + 102, labels=called, **ended))
    await store.append(start("r_right", created_at=AT + 103, labels=called, **ended))
    await store.append(start("r_left:child", created_at=AT + 104, parent_run_id="r_left", **ended))
    await spent(database, "r_top", limits=FEW, checked=True)
    await spent(database, "r_left")


def spent(database: Database, run_id: str, **more: Any) -> Awaitable[object]:
    """Count a turn of a run."""
    return spend(database, run_id, ONCE, at=AT, **more)


def deleted(database: Database, *run_ids: str) -> Awaitable[int]:
    """Delete runs, and what they spent."""
    return RunStore(database).delete_runs(run_ids)


SPENDING = Family(
    given=[tree],
    changes={
        "spend": lambda database: spent(database, "r_top"),
        "spend: below": lambda database: spent(database, "r_left:child", limits=FEW, checked=True),
        "spend: beside": lambda database: spent(database, "r_right"),
        "spend: beside, within limits": lambda database: spent(database, "r_right", limits=AgentLimits(time_ms=9)),
        "delete_runs: the top": lambda database: deleted(database, "r_top"),
        "delete_runs: the left": lambda database: deleted(database, "r_left", "r_left:child"),
        "delete_runs: the right and the top": lambda database: deleted(database, "r_right", "r_top"),
    },
    reads={"read_spending": lambda database: read_spending(database, "r_left")},
)
