"""The store does what a model of it does, whatever is asked of both in whatever order."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec.structs import replace

from penstock.base.json import JsonObject
from penstock.runtime.ports.runs import ANY, AnyHash, RunQuery, RunRow, RunWrite
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.tables.runs.store import RunStore
from penstock.runtime.tables.schedules import delete_schedule, list_schedules, put_schedule
from penstock.runtime.tables.workers import list_workers, record_heartbeat, register_worker, remove_worker
from tests.conformance.run_model import ModelOfRuns
from tests.conformance.stores import AT, contents_of_runs, definition, listed, record, schedule, start
from tests.waiting import SECONDS_MAX

T = TypeVar("T")

RUN_IDS = st.sampled_from(["r_1", "R_1", "r_2", "r_10", "order-1", "Order%", "ÄÖ"])
OWNERS = st.sampled_from(["w1", "w2", None])
STATUSES = st.sampled_from(["running", "waiting_input", "completed", "failed"])
NAMES = st.sampled_from(["refund", "onboarding"])
INSTANTS = st.integers(AT, AT + 6)
LABELS = st.dictionaries(
    st.sampled_from(["team", "customer"]), st.sampled_from(["blue", "Blue", "Straße", "STRASSE", "ärger", "50%"])
)
TEXTS = st.sampled_from(
    ["r_", "R_1", "order", "ORDER%", "ä", "b", "stras", "rass", "lue", "fund blue", "r_1 ref", "%", "_", "zzz", "e"]
)
TENANTS = st.sampled_from(["default", "default", "acme", "other"])
PAYLOADS: st.SearchStrategy[JsonObject] = st.dictionaries(
    st.text(max_size=4),
    st.one_of(st.none(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=6)),
    max_size=3,
)
ROWS = st.fixed_dictionaries(
    {
        "status": STATUSES,
        "updated_at": INSTANTS,
        "wake_at": st.one_of(st.none(), INSTANTS),
        "has_work": st.booleans(),
        "owner": OWNERS,
        "terminal": st.booleans(),
    }
)


TABLES: dict[str, Callable[..., Awaitable[Any]]] = {
    "delete_schedule": delete_schedule,
    "list_schedules": list_schedules,
    "list_workers": list_workers,
    "put_schedule": put_schedule,
    "record_heartbeat": record_heartbeat,
    "register_worker": register_worker,
    "remove_worker": remove_worker,
}


class StoreComparison(RuleBasedStateMachine):
    """Every rule is applied to the store and to the model, and both must answer alike."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.runner = asyncio.Runner()
        self.model = ModelOfRuns()
        self.store = RunStore(SqliteDatabase(Path(self.folder.name) / "store.db", synchronous="OFF"))
        self.wait(self.store.open())

    def teardown(self) -> None:
        try:
            self.compare_contents()
            # Few examples come to pages and to runs whose owner is gone by themselves.
            assert self.wait(listed(self.store, limit=2)) == self.wait(listed(self.model, limit=2))
            self.claim("w3")
            self.compare_contents()
        finally:
            self.wait(self.store.close())
            self.runner.close()
            self.folder.cleanup()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        async def bounded() -> T:
            async with asyncio.timeout(SECONDS_MAX):
                return await work

        return self.runner.run(bounded())

    def both(self, operation: str, *arguments: Any, **options: Any) -> Any:
        async def done(of: Callable[..., Awaitable[Any]]) -> Any:
            return await of(*arguments, **options)

        of_tables = TABLES.get(operation)
        of_store = attrgetter(operation)(self.store) if of_tables is None else partial(of_tables, self.store.database)
        return self.wait(done(attrgetter(operation)(self.model))), self.wait(done(of_store))

    def same(self, operation: str, *arguments: Any, **options: Any) -> Any:
        expected, found = self.both(operation, *arguments, **options)
        assert found == expected
        return found

    @rule(
        run_id=RUN_IDS,
        row=ROWS,
        created_at=INSTANTS,
        name=NAMES,
        labels=LABELS,
        tenant=TENANTS,
        parent=st.one_of(st.none(), RUN_IDS),
        payload=PAYLOADS,
    )
    def begin(self, run_id: str, payload: JsonObject, parent: str | None, name: str, **given: Any) -> None:
        write = start(run_id, payload=payload, parent_run_id=parent, workflow_name=name, labels=given["labels"])
        row = replace(write.row, created_at=given["created_at"], tenant=given["tenant"], **given["row"])
        self.same("append", replace(write, row=row))

    @rule(
        run_id=RUN_IDS,
        row=ROWS,
        count=st.integers(1, 3),
        offset=st.sampled_from([0, 0, 0, 0, 1, -1]),
        epoch=st.sampled_from([0, 0, 0, 0, 1, -1]),
    )
    def move(self, run_id: str, row: dict[str, Any], count: int, offset: int, epoch: int) -> None:
        before: RunRow = self.same("row", run_id) or start(run_id).row
        seq = max(before.seq + offset, 1)
        records = tuple(record(number) for number in range(seq + 1, seq + count + 1))
        after = replace(before, seq=seq + count, **row)
        self.same("append", RunWrite(expected_seq=seq, expected_epoch=before.epoch + epoch, row=after, records=records))

    @rule(
        changes=st.lists(
            st.tuples(RUN_IDS, ROWS, st.booleans(), st.sampled_from([0, 0, 0, 1, -1]), st.sampled_from([0, 0, 0, 1])),
            max_size=8,
        )
    )
    def append_many_at_once(self, changes: list[tuple[str, dict[str, Any], bool, int, int]]) -> None:
        """What comes at once is stored in one transaction, with the outcome that it has one after the other."""
        rows: dict[str, RunRow] = {}
        writes = []
        for run_id, row, same_index, offset, epoch in changes:
            before = rows.get(run_id) or self.same("row", run_id)
            if before is None:
                writes.append(start(run_id, labels={"team": "blue"}))
                rows[run_id] = writes[-1].row
                continue
            seq = max(before.seq + offset, 1)
            changed = {"updated_at": row["updated_at"]} if same_index else row
            after = replace(before, seq=seq + 1, **changed)
            write = RunWrite(expected_seq=seq, row=after, records=(record(seq + 1),), same_index=same_index)
            writes.append(replace(write, expected_epoch=before.epoch + epoch))
            if (seq, epoch) == (before.seq, 0):
                rows[run_id] = after

        async def at_once(store: RunStore | ModelOfRuns) -> list[Any]:
            return await asyncio.gather(*(store.append(write) for write in writes))

        assert self.wait(at_once(self.store)) == self.wait(at_once(self.model))

    @rule(run_id=RUN_IDS, has_work=st.booleans(), owner=OWNERS, epoch=st.integers(0, 2))
    def note_work(self, run_id: str, has_work: bool, owner: str | None, epoch: int) -> None:
        self.same("set_work", run_id, has_work=has_work, owner=owner, expected_epoch=epoch)

    @rule(owner=st.sampled_from(["w1", "w2"]))
    def claim(self, owner: str) -> None:
        expected, found = self.both("claim", owner=owner, limit=100)
        assert sorted(found) == sorted(expected)

    @rule(owner=st.sampled_from(["w1", "w2"]), at=INSTANTS)
    def register_worker(self, owner: str, at: int) -> None:
        self.same("register_worker", owner, at=at)

    @rule(owner=st.sampled_from(["w1", "w2"]), at=INSTANTS)
    def heartbeat(self, owner: str, at: int) -> None:
        self.same("record_heartbeat", owner, at=at)

    @rule(owner=st.sampled_from(["w1", "w2"]), beats=st.one_of(st.none(), st.integers(1, 3)))
    def remove_worker(self, owner: str, beats: int | None) -> None:
        self.same("remove_worker", owner, beats=beats)

    @rule(owner=st.sampled_from(["w1", "w2"]), now=INSTANTS)
    def look_for_timers(self, owner: str, now: int) -> None:
        expected, found = self.both("due", owner=owner, now=now, limit=100)
        assert sorted(found) == sorted(expected)
        self.same("next_wake_at", after=now)

    @rule(
        number=st.integers(1, 3),
        name=NAMES,
        tenant=TENANTS,
        expected=st.sampled_from([ANY, ANY, None, "refund-1", "onboarding-2"]),
        by=st.sampled_from([None, "ada"]),
    )
    def define(self, number: int, name: str, expected: str | AnyHash | None, **given: Any) -> None:
        row = definition(number, name=name)
        row = replace(row, hash=f"{name}-{number}", tenant=given["tenant"], created_by=given["by"])
        self.same("definitions.put", row, expected_hash=expected)

    @rule(name=NAMES, tenant=TENANTS, expected=st.sampled_from([ANY, "refund-1", "onboarding-2"]))
    def undefine(self, name: str, tenant: str, expected: str | AnyHash) -> None:
        self.same("definitions.delete", name, tenant=tenant, expected_hash=expected)

    @rule(name=NAMES, number=st.integers(1, 3), tenant=TENANTS, prefix=st.sampled_from([None, "ref", "x"]))
    def look_up(self, name: str, number: int, tenant: str, prefix: str | None) -> None:
        self.same("definitions.find_named", name, tenant=tenant)
        self.same("definitions.find", f"{name}-{number}", tenant=tenant)
        self.same("definitions.find", f"{name}-{number}")
        for of in (tenant, None):
            self.same("definitions.list_newest", tenant=of)
            expected, found = self.both("definitions.list_page", tenant=of, prefix=prefix, limit=2)
            assert found == expected
            if found.next_cursor is not None:
                self.same("definitions.list_page", tenant=of, prefix=prefix, limit=2, cursor=found.next_cursor)
        expected, found = self.both("definitions.list_versions", name, tenant=tenant, limit=100)
        assert found.rows == expected.rows

    @rule(
        schedule_id=st.sampled_from(["a", "b"]),
        next_at=st.one_of(st.none(), INSTANTS),
        gone=st.booleans(),
        expected=st.one_of(st.just(ANY), st.none(), INSTANTS.map(lambda moment: schedule("a", next_at=moment))),
    )
    def plan(self, schedule_id: str, next_at: int | None, gone: bool, expected: Any) -> None:
        if gone:
            self.same("delete_schedule", schedule_id)
        else:
            self.same("put_schedule", schedule(schedule_id, next_at=next_at), expected=expected)

    @rule(run_ids=st.lists(RUN_IDS, max_size=3))
    def forget(self, run_ids: list[str]) -> None:
        self.same("delete_runs", run_ids)

    @rule(before=INSTANTS)
    def apply_retention(self, before: int) -> None:
        self.same("delete_ended", before=before, limit=100)

    @rule(
        statuses=st.lists(STATUSES, max_size=2),
        name=st.one_of(st.none(), NAMES),
        parent=st.one_of(st.none(), st.none(), RUN_IDS),
        label=st.one_of(st.none(), st.tuples(st.just("team"), st.sampled_from(["blue", "Blue", "STRASSE"]))),
        text=st.one_of(st.none(), TEXTS),
        span=st.tuples(st.one_of(st.none(), INSTANTS), st.one_of(st.none(), INSTANTS)),
        limit=st.integers(1, 4),
        tenant=st.one_of(st.none(), TENANTS),
    )
    def search(self, statuses: list[str], name: str | None, limit: int, **given: Any) -> None:
        query = {
            "statuses": tuple(statuses),
            "workflow_name": name,
            "parent_run_id": given["parent"],
            "label": given["label"],
            "text": given["text"],
            "created_after": given["span"][0],
            "created_before": given["span"][1],
            "limit": limit,
            "tenant": given["tenant"],
        }
        assert self.wait(listed(self.store, **query)) == self.wait(listed(self.model, **query))

    @rule(run_id=RUN_IDS, after=st.integers(0, 8), limit=st.integers(1, 4))
    def read(self, run_id: str, after: int, limit: int) -> None:
        self.same("history", run_id, after_seq=after, limit=limit)
        self.same("load", run_id)

    @rule()
    def open_again(self) -> None:
        self.wait(self.store.close())
        self.wait(self.store.open())

    @invariant()
    def the_first_page_is_the_same(self) -> None:
        expected, found = self.both("list_runs", RunQuery())
        assert found.rows == expected.rows

    def compare_contents(self) -> None:
        expected, found = self.wait(contents_of_runs(self.model)), self.wait(contents_of_runs(self.store))
        expected["due"], found["due"] = sorted(expected["due"]), sorted(found["due"])
        assert found == expected
        self.same("list_workers")
        self.same("list_schedules")


TestStoreComparison = StoreComparison.TestCase
TestStoreComparison.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
