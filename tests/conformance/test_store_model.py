"""The SQLite store does what the memory store does, whatever is asked of both in whatever order."""

import asyncio
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec.structs import replace

from penstock.base.json import JsonObject
from penstock.runtime.ports import RunQuery, RunRow, RunWrite
from penstock.runtime.stores.memory import MemoryStore
from penstock.runtime.stores.sqlite import SqliteStore
from tests.conformance.stores import AT, contents, definition, listed, record, schedule, start, worker

T = TypeVar("T")

RUN_IDS = st.sampled_from(["r_1", "R_1", "r_2", "r_10", "order-1", "Order%", "ÄÖ"])
OWNERS = st.sampled_from(["w1", "w2", None])
STATUSES = st.sampled_from(["running", "waiting_input", "completed", "failed"])
NAMES = st.sampled_from(["refund", "onboarding"])
INSTANTS = st.integers(AT, AT + 6)
LABELS = st.dictionaries(
    st.sampled_from(["team", "customer"]), st.sampled_from(["blue", "Blue", "Straße", "STRASSE", "ärger", "50%"])
)
TEXTS = st.sampled_from(["r_", "R_1", "order", "ORDER%", "ä", "b", "stras", "5", "%", "_", "zzz"])
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


class StoreComparison(RuleBasedStateMachine):
    """Every rule is applied to both stores, and both must answer alike."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.runner = asyncio.Runner()
        self.model = MemoryStore()
        self.store = SqliteStore(Path(self.folder.name) / "store.db", synchronous="OFF")
        self.wait(self.store.open())

    def teardown(self) -> None:
        try:
            self.compare_contents()
        finally:
            self.wait(self.store.close())
            self.runner.close()
            self.folder.cleanup()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        async def bounded() -> T:
            async with asyncio.timeout(30):
                return await work

        return self.runner.run(bounded())

    def both(self, operation: str, *arguments: Any, **options: Any) -> Any:
        async def one(store: object) -> Any:
            return await getattr(store, operation)(*arguments, **options)

        expected, found = self.wait(one(self.model)), self.wait(one(self.store))
        return expected, found

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
        parent=st.one_of(st.none(), RUN_IDS),
        payload=PAYLOADS,
    )
    def begin(self, run_id: str, payload: JsonObject, parent: str | None, name: str, **given: Any) -> None:
        write = start(run_id, payload=payload, parent_run_id=parent, workflow_name=name, labels=given["labels"])
        self.same("append", replace(write, row=replace(write.row, created_at=given["created_at"], **given["row"])))

    @rule(run_id=RUN_IDS, row=ROWS, count=st.integers(1, 3), offset=st.sampled_from([0, 0, 0, 0, 1, -1]))
    def move(self, run_id: str, row: dict[str, Any], count: int, offset: int) -> None:
        before: RunRow = self.same("row", run_id) or start(run_id).row
        seq = max(before.seq + offset, 1)
        records = tuple(record(number) for number in range(seq + 1, seq + count + 1))
        self.same("append", RunWrite(expected_seq=seq, row=replace(before, seq=seq + count, **row), records=records))

    @rule(run_id=RUN_IDS, has_work=st.booleans(), owner=OWNERS)
    def note_work(self, run_id: str, has_work: bool, owner: str | None) -> None:
        self.same("set_work", run_id, has_work=has_work, owner=owner)

    @rule(owner=st.sampled_from(["w1", "w2"]), now=INSTANTS)
    def claim(self, owner: str, now: int) -> None:
        expected, found = self.both("claim", owner=owner, now=now, limit=100)
        assert sorted(found) == sorted(expected)

    @rule(owner=st.sampled_from(["w1", "w2"]), expires_at=st.one_of(st.just(0), INSTANTS))
    def beat(self, owner: str, expires_at: int) -> None:
        self.same("beat", worker(owner, expires_at))

    @rule(owner=st.sampled_from(["w1", "w2"]), now=INSTANTS)
    def look_for_timers(self, owner: str, now: int) -> None:
        expected, found = self.both("due", owner=owner, now=now, limit=100)
        assert sorted(found) == sorted(expected)
        self.same("next_wake_at", after=now)

    @rule(number=st.integers(1, 3), name=NAMES)
    def define(self, number: int, name: str) -> None:
        self.same("put_definition", replace(definition(number, name=name), hash=f"{name}-{number}"))

    @rule(schedule_id=st.sampled_from(["a", "b"]), next_at=st.one_of(st.none(), INSTANTS), gone=st.booleans())
    def plan(self, schedule_id: str, next_at: int | None, gone: bool) -> None:
        if gone:
            self.same("delete_schedule", schedule_id)
        else:
            self.same("put_schedule", schedule(schedule_id, next_at=next_at))

    @rule(run_ids=st.lists(RUN_IDS, max_size=3))
    def forget(self, run_ids: list[str]) -> None:
        self.same("delete_runs", run_ids)

    @rule(before=INSTANTS)
    def forget_old(self, before: int) -> None:
        self.same("delete_ended", before=before, limit=100)

    @rule(
        statuses=st.lists(STATUSES, max_size=2),
        name=st.one_of(st.none(), NAMES),
        parent=st.one_of(st.none(), st.none(), RUN_IDS),
        label=st.one_of(st.none(), st.tuples(st.just("team"), st.sampled_from(["blue", "Blue", "STRASSE"]))),
        text=st.one_of(st.none(), TEXTS),
        span=st.tuples(st.one_of(st.none(), INSTANTS), st.one_of(st.none(), INSTANTS)),
        limit=st.integers(1, 4),
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
        expected, found = self.wait(contents(self.model)), self.wait(contents(self.store))
        for name in ("due",):
            expected[name], found[name] = sorted(expected[name]), sorted(found[name])
        assert found == expected


TestStoreComparison = StoreComparison.TestCase
TestStoreComparison.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
