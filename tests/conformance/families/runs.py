"""Runs: decisions, work and deletion.

Every call has a store of its own, which remembers nothing of the ones before. Runs are created at times of their own,
because the keys of runs that were created at one time depend on the order.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec.structs import replace

from penstock.base.limits import PAYLOAD_INLINE_BYTES_MAX, STORED_PAGE_RECORDS_MAX
from penstock.governance.quotas import TENANT_SUBJECT, QuotaLimits
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.platform import CallRecord
from penstock.runtime.ports.runs import RunQuery, RunWrite
from penstock.runtime.ports.usage import RunUsage, StartQuota, SubjectQuota
from penstock.runtime.spending import CALLER_LABEL
from penstock.runtime.tables.runs.deleting import list_ended
from penstock.runtime.tables.runs.store import RunStore
from penstock.runtime.tables.workers import register_worker
from tests.conformance.families.family import Call, Family
from tests.conformance.platform_stores import SEAL, claim, entry
from tests.conformance.stores import AT, start, step
from tests.conformance.test_store_moves import moved

__all__ = ["RUNS"]

LARGE, OTHER = ("x" * PAYLOAD_INLINE_BYTES_MAX, "y" * PAYLOAD_INLINE_BYTES_MAX)
ENDED: dict[str, Any] = {"status": "completed", "terminal": True}


def run(number: int, run_id: str, **more: Any) -> RunWrite:
    """The start of a run that was created at a time of its own."""
    return start(run_id, created_at=AT + number, updated_at=AT + number, **more)


OPEN = run(1, "r_open", has_work=True, owner="w1", wake_at=AT + 5, labels={"team": "blue"}, payload={"large": LARGE})
MOVED = run(2, "r_moved")
LOST = run(3, "r_lost", has_work=True, owner="gone")
NEW = run(4, "r_new", has_work=True)
DONE = run(5, "r_done", payload={"large": LARGE, "other": OTHER}, labels={"team": "blue"}, **ENDED)
PARENT, CHILD = run(6, "r_parent"), run(7, "r_parent:child", parent_run_id="r_parent", **ENDED)
FIRST, LATER = run(8, "r_chain", **ENDED), run(9, "r_chain~1", payload={"large": OTHER}, **ENDED)
CALLED = run(10, "r_called", labels={CALLER_LABEL: "r_done"}, **ENDED)


def append(write: RunWrite) -> Call:
    """Store a decision."""
    return lambda database: RunStore(database).append(write)


def on_store(use: Callable[[RunStore], Awaitable[object]]) -> Call:
    """Use a store."""
    return lambda database: use(RunStore(database))


def used(*subjects: str) -> RunUsage:
    """What a result reports."""
    return RunUsage(tenant="default", subjects=subjects, at=AT, tokens=5, cost=7)


def within_quota(write: RunWrite) -> RunWrite:
    """A start of which the quotas allow one."""
    limits = QuotaLimits(runs_per_day=1, runs_at_once=9)
    subjects = (SubjectQuota("p", limits), SubjectQuota(TENANT_SUBJECT, QuotaLimits(runs_at_once=99)))
    return replace(write, call=CallRecord(quota=StartQuota(tenant="default", at=AT, subjects=subjects)))


def claimed(**chosen: Any) -> Call:
    """Take over runs; which of them, in the order of their ids."""

    async def call(database: Database) -> list[str]:
        return sorted(await RunStore(database).claim(**chosen))

    return call


async def append_together(database: Database, *writes: RunWrite) -> list[object]:
    """Store decisions that wait together, and so are written by one call."""
    store = RunStore(database)
    return [await stored for stored in [store.append(write) for write in writes]]


async def list_by_everything(database: Database) -> None:
    """List with every filter, alone and with others, in both orders and counted."""
    filters: list[dict[str, Any]] = [
        {"label": ("team", "blue")},
        {"parent_run_id": "r_parent"},
        {"text": "r_ fund"},
        {"text": "ne"},
        {"workflow_name": "refund"},
        {"started_by": "somebody"},
        {"statuses": ("running", "completed")},
        {"tenant": "default"},
    ]
    spans = {"created_after": AT - 1, "created_before": AT + 1_000, "updated_after": AT - 1}
    store = RunStore(database)
    for first in [{}, *filters]:
        for second in [{}, *filters, spans]:
            await store.list_runs(RunQuery(limit=2, **{**first, **second}))
    for by_update in (False, True):
        page = await store.list_runs(RunQuery(limit=1, by_update=by_update, counted=True))
        await store.list_runs(RunQuery(limit=1, by_update=by_update, cursor=page.next_cursor))


async def read_changes(database: Database) -> None:
    """Read what changed: all of it, what follows, and after a position that is not known."""
    store = RunStore(database)
    page = await store.changes(after=None, since=0, limit=2)
    for after in (page.position, "999.999"):
        await store.changes(after=after, since=AT, limit=5)


async def read_due(database: Database) -> None:
    """Read due timers, of all runs and of one tree."""
    for root in (None, "r_open"):
        await RunStore(database).due(owner="w2", now=AT + 9, limit=5, root_run_id=root)


RUNS = Family(
    given=[
        lambda database: register_worker(database, "w1", at=AT),
        *map(append, (OPEN, MOVED, LOST, NEW, DONE, PARENT, CHILD, FIRST, LATER, CALLED)),
        append(moved(MOVED, 1, "one")),
    ],
    changes={
        "append: the next": append(step(OPEN, records=2, status="waiting_input", wake_at=None)),
        "append: another next": append(step(OPEN, payload={"other": OTHER}, updated_at=AT + 50)),
        "append: the end": append(
            replace(step(OPEN, has_work=False, owner=None, wake_at=None, updated_at=AT + 60, **ENDED), usage=used("p"))
        ),
        "append: a move": append(moved(moved(MOVED, 1, "one"), 2, "two")),
        "append: of a lost run": append(step(LOST, has_work=False, owner=None)),
        "append: of a parent": append(step(PARENT, updated_at=AT + 70, **ENDED)),
        "append: a start": append(run(20, "r_started", labels={"team": "red"}, payload={"large": LARGE})),
        "append: another start": append(run(21, "r_started", records=1, has_work=True, payload={"other": OTHER})),
        "append: a start at that time": append(run(20, "r_started_too", has_work=True, owner="gone")),
        "append: a child": append(run(22, "r_done:child", parent_run_id="r_done", has_work=True, owner="w1")),
        "append: a later run": append(run(23, "r_done~1", payload={"large": LARGE, "other": OTHER})),
        "append: within a quota": append(within_quota(run(24, "r_counted"))),
        "append: within the same quota": append(within_quota(run(25, "r_counted_too", has_work=True))),
        "append: with a record": append(
            replace(
                step(OPEN, status="paused"),
                call=CallRecord(entry=entry(70), seal=SEAL, claim=claim("put"), answer={"status": 200}),
            )
        ),
        "append: together": lambda database: append_together(
            database,
            run(26, "r_together", has_work=True, owner="w1"),
            run(27, "r_together_too", labels={"team": "red"}, payload={"large": LARGE}),
            replace(step(LOST, status="paused"), usage=used("p")),
            replace(moved(moved(MOVED, 1, "one"), 2, "2"), usage=used("q", "p")),
            step(PARENT, records=STORED_PAGE_RECORDS_MAX + 1, payload={}, **ENDED),
        ),
        "claim: by the first": claimed(owner="w1", limit=9),
        "claim: by another": claimed(owner="w2", limit=9),
        "claim: one": claimed(owner="w2", limit=1, begun=False),
        "claim: what was begun": claimed(owner="w3", limit=9, begun=True),
        "claim: of one tree": claimed(owner="w3", limit=9, root_run_id="r_new"),
        "set_work": on_store(lambda store: store.set_work("r_lost", has_work=False, owner=None, expected_epoch=0)),
        "set_work: for a worker": on_store(
            lambda store: store.set_work("r_new", has_work=True, owner="w1", expected_epoch=0)
        ),
        "delete_runs": on_store(lambda store: store.delete_runs(["r_done", "r_parent:child"])),
        "delete_runs: the other way round": on_store(
            lambda store: store.delete_runs(["r_chain~1", "r_called", "r_chain", "r_done"])
        ),
        "delete_runs: with a record": on_store(
            lambda store: store.delete_runs(["r_called"], call=CallRecord(entry=entry(80), seal=SEAL))
        ),
        "forget_runs": on_store(lambda store: store.forget_runs(["r_called", "r_chain", "r_done"])),
        "delete_ended": on_store(lambda store: store.delete_ended(before=AT + 8, limit=5)),
    },
    reads={
        "load": on_store(lambda store: store.load("r_open")),
        "load: moved": on_store(lambda store: store.load("r_moved")),
        "history": on_store(lambda store: store.history("r_open", after_seq=1, limit=1)),
        "row": on_store(lambda store: store.row("r_open")),
        "positions": on_store(lambda store: store.positions(["r_open", "r_new"])),
        "changes": read_changes,
        "list_runs": list_by_everything,
        "ended_runs": on_store(lambda store: store.ended_runs(before=AT + 8, limit=5)),
        "list_ended": lambda database: list_ended(database, before=AT + 8, limit=5),
        "due": read_due,
        "next_wake_at": on_store(lambda store: store.next_wake_at(after=AT)),
        "timers_ahead": on_store(lambda store: store.timers_ahead(after=AT - 1, limit=5)),
        "has_unclaimed": on_store(lambda store: store.has_unclaimed()),
        "has_unclaimed: in one tree": on_store(lambda store: store.has_unclaimed(root_run_id="r_new")),
        "owned": on_store(lambda store: store.owned(owner="w1", after=0, limit=5)),
    },
)
