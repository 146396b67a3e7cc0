"""What every store does: the contract of the `RunStore` port, one fact at a time."""

import asyncio
import random
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.base import limits
from penstock.base.errors import Rejected
from penstock.base.ids import ENTROPY_BYTES, run_id_of
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.model import AgentLimits
from penstock.runtime.ports.runs import Appended, RunPosition, RunQuery, RunRow, SequenceConflict, StoredRun
from penstock.runtime.ports.topics import Topic
from penstock.runtime.spending import CALLER_LABEL, RunSpending, Spent
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.tables.runs.store import RunStore
from penstock.runtime.tables.schedules import delete_schedule, list_schedules, put_schedule
from penstock.runtime.tables.spending import read_spending, spend
from penstock.runtime.tables.workers import list_workers, record_heartbeat, register_worker, remove_worker
from tests.conformance.stores import (
    AT,
    contents,
    definition,
    listed,
    on_every_store,
    record,
    schedule,
    start,
    step,
    worker,
)

# --- appending -----------------------------------------------------------------------------------


@on_every_store
async def test_a_new_run_is_read_back_as_it_was_written(store: RunStore) -> None:
    write = start(
        labels={"team": "blue", "Kunde": "Müller & Söhne"},
        parent_run_id="r_0",
        wake_at=AT + 60_000,
        has_work=True,
        owner="w1",
    )
    assert await store.append(write) == Appended()
    assert await store.load("r_1") == StoredRun(write.row, write.records)
    assert await store.row("r_1") == write.row
    assert await store.history("r_1") == write.records


@on_every_store
async def test_a_decision_follows_the_one_before_it(store: RunStore) -> None:
    first = start()
    second = step(first, records=3, status="waiting_input", updated_at=AT + 1, wake_at=AT + 9, has_work=True, owner="w")
    third = step(second, status="completed", terminal=True, wake_at=None, has_work=False, owner=None)
    for write in (first, second, third):
        assert await store.append(write) == Appended()
    assert await store.load("r_1") == StoredRun(third.row, first.records + second.records + third.records)


@on_every_store
async def test_how_far_several_runs_are_is_known_in_one_read(store: RunStore) -> None:
    first, other = start(), start("r_ü'\"")
    for write in (first, other, step(first, records=3), step(other, status="failed", terminal=True)):
        await store.append(write)
    found = await store.positions(["r_1", "nothing", "r_ü'\""])
    assert found == {"r_1": RunPosition(seq=first.row.seq + 3, terminal=False), "r_ü'\"": found["r_ü'\""]}
    assert found["r_ü'\""].terminal is True
    assert await store.positions(()) == {}


@on_every_store
async def test_a_decision_for_another_moment_is_refused_and_changes_nothing(store: RunStore) -> None:
    first = start(labels={"team": "blue"})
    second = step(first)
    await store.append(first)
    await store.append(second)
    before = await contents(store)
    too_old = step(first, records=2, status="failed")
    too_new = step(step(second), status="failed")
    assert await store.append(too_old) == SequenceConflict()
    assert await store.append(too_new) == SequenceConflict()
    assert await contents(store) == before


@on_every_store
async def test_a_second_start_with_the_same_id_is_refused_and_changes_nothing(store: RunStore) -> None:
    await store.append(start(labels={"team": "blue"}))
    before = await contents(store)
    assert await store.append(start(records=5, status="failed", labels={"team": "green"})) == SequenceConflict()
    assert await contents(store) == before


@on_every_store
async def test_a_decision_for_a_run_that_does_not_exist_is_refused(store: RunStore) -> None:
    assert await store.append(step(start())) == SequenceConflict()
    assert await store.load("r_1") is None
    assert await listed(store) == []


@on_every_store
async def test_what_a_run_is_does_not_change_with_its_decisions(store: RunStore) -> None:
    first = start(labels={"team": "blue"}, parent_run_id="r_0")
    await store.append(first)
    changed = step(
        first,
        workflow_name="other",
        workflow_version="2",
        definition_hash="hash-2",
        created_at=AT + 7,
        labels={"team": "green"},
        parent_run_id=None,
    )
    await store.append(changed)
    row = await store.row("r_1")
    assert row == replace(first.row, seq=3)
    assert await listed(store, label=("team", "blue")) == ["r_1"]
    assert await listed(store, label=("team", "green")) == []


@on_every_store
async def test_a_decision_that_promises_the_same_index_moves_only_the_number_and_the_time(store: RunStore) -> None:
    first = start(has_work=True, owner="w1", wake_at=AT + 5)
    await store.append(first)
    await store.set_work("r_1", has_work=True, owner="w2", expected_epoch=0)
    second = replace(step(first, updated_at=AT + 1), same_index=True)
    assert await store.append(second) == Appended()
    assert await store.append(second) == SequenceConflict()
    assert await store.load("r_1") == StoredRun(replace(second.row, owner="w2"), first.records + second.records)


@on_every_store
async def test_records_that_do_not_continue_a_run_are_a_bug_of_the_caller(store: RunStore) -> None:
    good = start()
    for bad in (
        replace(good, records=()),
        replace(good, records=(record(2),)),
        replace(good, row=replace(good.row, seq=7)),
        replace(step(good), expected_seq=1),
    ):
        with pytest.raises(ValueError, match="do not lead from row"):
            await store.append(bad)
    assert await listed(store) == []
    assert await store.append(good) == Appended()


@on_every_store
async def test_of_many_starts_with_one_id_one_happens(store: RunStore) -> None:
    writes = [start(records=number, labels={"by": str(number)}) for number in range(1, 21)]
    outcomes = await asyncio.gather(*(store.append(write) for write in writes))
    assert outcomes.count(Appended()) == 1
    [winner] = [write for write, outcome in zip(writes, outcomes, strict=True) if outcome == Appended()]
    assert await store.load("r_1") == StoredRun(winner.row, winner.records)


@on_every_store
async def test_of_many_decisions_for_one_moment_one_happens(store: RunStore) -> None:
    first = start()
    await store.append(first)
    writes = [step(first, records=number) for number in range(1, 21)]
    outcomes = await asyncio.gather(*(store.append(write) for write in writes))
    assert outcomes.count(Appended()) == 1
    [winner] = [write for write, outcome in zip(writes, outcomes, strict=True) if outcome == Appended()]
    assert await store.load("r_1") == StoredRun(winner.row, first.records + winner.records)


@on_every_store
async def test_many_runs_move_at_once(store: RunStore) -> None:
    async def live(run_id: str) -> None:
        write = start(run_id)
        assert await store.append(write) == Appended()
        for _ in range(4):
            write = step(write)
            assert await store.append(write) == Appended()

    await asyncio.gather(*(live(f"r_{number}") for number in range(100)))
    assert len(await listed(store)) == 100
    for number in range(100):
        assert await store.history(f"r_{number}") == tuple(record(seq) for seq in range(1, 7))


@on_every_store
async def test_a_caller_who_stops_waiting_leaves_nothing_half_done(store: RunStore) -> None:
    waiting = [asyncio.ensure_future(store.append(start(f"r_{number}"))) for number in range(20)]
    await asyncio.sleep(0)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert await store.append(start("r_last")) == Appended()
    for run_id in await listed(store):
        assert await store.load(run_id) == StoredRun(start(run_id).row, start(run_id).records)


# --- values --------------------------------------------------------------------------------------


def nested(depth: int) -> JsonValue:
    value: JsonValue = "core"
    for level in range(depth):
        value = {"in": value} if level % 2 else [value]
    return value


VALUES: list[JsonValue] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    2**53 + 1,
    2**63,
    -(2**64),
    10**60,
    0.1,
    1.0,
    -0.0,
    1e308,
    5e-324,
    1.7976931348623157e308,
    3.141592653589793,
    "",
    "plain",
    "Ünïcödé ✓ 漢字 🜁 \u202e",
    "\x00 \x1f \x7f \u2028 \\ \" '",
    "e\u0301 is not \u00e9",
    "half a pair: \ud83d",
    "\udfff",
    [],
    {},
    [[], {}, [None]],
    {"": 1, "a.b": {"$ref": "#"}, "Ä": [1, 1.0, True, "1"]},
    {"z": 1, "a": 2, "m": 3},
    nested(limits.JSON_DEPTH_MAX),
    list(range(1_000)),
]


def exactly(value: JsonValue) -> str:
    """Text that differs for values that Python calls equal: 1, 1.0 and true; the order of keys."""
    return repr(value)


@on_every_store
async def test_every_json_value_survives_exactly(store: RunStore) -> None:
    for number, value in enumerate(VALUES):
        assert await store.append(start(f"r_{number}", payload={"value": value})) == Appended()
    for number, value in enumerate(VALUES):
        loaded = await store.load(f"r_{number}")
        assert loaded is not None
        assert exactly(loaded.records[0].payload) == exactly({"value": value})
        [found, *_] = await store.history(f"r_{number}")
        assert exactly(found.payload) == exactly({"value": value})


@on_every_store
async def test_a_megabyte_survives(store: RunStore) -> None:
    large = "".join(random.Random(1).choices('abcdefghij ✓🜁\n"\\', k=1_000_000))
    await store.append(start(payload={"text": large}, records=1))
    loaded = await store.load("r_1")
    assert loaded is not None
    assert loaded.records[0].payload["text"] == large


@on_every_store
async def test_large_values_survive_in_every_place(store: RunStore) -> None:
    large = "é" * limits.PAYLOAD_INLINE_BYTES_MAX
    many: JsonValue = [{"number": number, "text": "x" * 100} for number in range(2_000)]
    payload: JsonObject = {
        "text": large,
        "list": [1, large, [large, {"deep": {"deeper": many}}]],
        "wide": {"document": large, "rows": many, **{f"n{number}": "y" * 1_000 for number in range(100)}},
        "again": many,
        "broken": "\ud800" + large,
        "small": {"payloads": [[["a"], "hash"]], "records": None},
    }
    first = start(payload=payload)
    second = step(first, records=3, payload=payload)
    await store.append(first)
    await store.append(second)
    found = await store.load("r_1")
    assert found is not None
    assert [exactly(item.payload) for item in found.records] == [exactly(payload)] * 5
    assert await store.history("r_1", after_seq=3) == second.records[1:]


@on_every_store
async def test_a_large_value_of_two_runs_stays_when_one_is_forgotten(store: RunStore) -> None:
    payload: JsonObject = {"document": "x" * (limits.PAYLOAD_INLINE_BYTES_MAX + 1)}
    for run_id in ("r_1", "r_2"):
        await store.append(start(run_id, payload=payload, terminal=True))
    assert await store.delete_runs(["r_1"]) == 1
    assert [item.payload for item in await store.history("r_2")] == [payload] * 2
    assert await store.append(start("r_1", payload=payload)) == Appended()
    assert [item.payload for item in await store.history("r_1")] == [payload] * 2


@on_every_store
async def test_documents_and_specs_survive_exactly(store: RunStore) -> None:
    document: JsonObject = {"values": VALUES}
    await store.definitions.put(replace(definition(1), document=document))
    await put_schedule(store.database, schedule(spec=document))
    found = await store.definitions.find("hash-1")
    assert found is not None
    assert exactly(found.document) == exactly(document)
    [kept] = await list_schedules(store.database)
    assert exactly(kept.spec) == exactly(document)


@on_every_store
async def test_names_may_hold_any_text(store: RunStore) -> None:
    names = ["", " ", "a'b", 'a"b', "a%b", "a_b", "a\\b", "a/b?c#d", "Ünïcödé 🜁", "x" * 5_000, "line\nbreak", "; DROP"]
    for number, name in enumerate(names):
        await store.append(start(name, workflow_name=name, labels={name: name}, created_at=AT + number))
    assert await listed(store) == names[::-1]
    for name in names:
        assert await listed(store, label=(name, name)) == [name]
        assert await listed(store, workflow_name=name) == [name]
        row = await store.row(name)
        assert row is not None
        assert row.labels == {name: name}


@on_every_store
async def test_ids_and_labels_must_be_unicode(store: RunStore) -> None:
    for write in (start("r_\ud800"), start(labels={"\ud800": "a"}), start(labels={"a": "\ud800"})):
        with pytest.raises(Rejected, match="TEXT_NOT_UNICODE"):
            await store.append(write)
    assert await listed(store) == []


# --- reading -------------------------------------------------------------------------------------


@on_every_store
async def test_a_run_that_does_not_exist_is_nothing(store: RunStore) -> None:
    await store.append(start("r_2"))
    assert await store.load("r_1") is None
    assert await store.row("r_1") is None
    assert await store.history("r_1") == ()
    assert await store.row("R_2") is None


@on_every_store
async def test_a_history_can_be_read_in_pieces_of_any_size(store: RunStore) -> None:
    write = start(records=3)
    await store.append(write)
    for size in (1, 4, 2, 5, 1, 1, 7):
        write = step(write, records=size)
        await store.append(write)
    await store.append(start("r_0", records=9, created_at=AT - 1))
    await store.append(start("r_2", records=9, created_at=AT + 1))
    everything = tuple(record(seq) for seq in range(1, 25))
    assert await store.history("r_1") == everything
    for after in range(-1, 26):
        for limit in (1, 2, 3, 10, 24, 1_000):
            wanted = everything[max(after, 0) :][:limit]
            assert await store.history("r_1", after_seq=after, limit=limit) == wanted, (after, limit)


@on_every_store
async def test_a_history_is_read_a_thousand_records_at_a_time_unless_told(store: RunStore) -> None:
    await store.append(start(records=1_500))
    first = await store.history("r_1")
    assert [found.seq for found in first] == list(range(1, 1_001))
    rest = await store.history("r_1", after_seq=1_000)
    assert [found.seq for found in rest] == list(range(1_001, 1_501))


@on_every_store
async def test_the_mark_of_a_store_is_another_one_after_every_change(store: RunStore) -> None:
    marks = [store.changed(Topic.ANYTHING)]
    first = start(has_work=True)
    await store.append(first)
    marks.append(store.changed(Topic.ANYTHING))
    await store.append(step(first))
    marks.append(store.changed(Topic.ANYTHING))
    assert await store.claim(owner="w", limit=1) == ("r_1",)
    marks.append(store.changed(Topic.ANYTHING))
    assert len(set(marks)) == 4


# --- listing -------------------------------------------------------------------------------------


async def fill(store: RunStore) -> None:
    """Sixty runs with properties of every kind."""
    for number in range(60):
        await store.append(
            start(
                f"r_{number:02}",
                status=("running", "failed", "completed")[number % 3],
                workflow_name=("refund", "onboarding")[number % 2],
                parent_run_id=f"r_{number - 50:02}" if number >= 50 and number % 2 else None,
                labels={"team": ("blue", "green")[number // 30], "number": str(number)} if number % 5 else {},
                created_at=AT + number // 2,
            )
        )


@on_every_store
async def test_runs_are_listed_newest_first(store: RunStore) -> None:
    for run_id, created_at in (("middle", AT + 5), ("old", AT), ("new", AT + 9), ("also middle", AT + 5)):
        await store.append(start(run_id, created_at=created_at))
    assert await listed(store) == ["new", "also middle", "middle", "old"]


@on_every_store
async def test_every_filter_finds_what_it_says(store: RunStore) -> None:
    await fill(store)
    rows = {run_id: await store.row(run_id) for run_id in await listed(store)}
    assert len(rows) == 60

    async def check(expected: Any, **query: Any) -> None:
        wanted = [run_id for run_id, row in rows.items() if row is not None and expected(row)]
        assert await listed(store, **query) == wanted, query
        assert await listed(store, **query, limit=7) == wanted, query

    await check(lambda row: row.status == "failed", statuses=("failed",))
    await check(lambda row: row.status in ("failed", "completed"), statuses=("failed", "completed", "failed"))
    await check(lambda row: False, statuses=("unheard of",))
    await check(lambda row: row.workflow_name == "refund", workflow_name="refund")
    await check(lambda row: False, workflow_name="Refund")
    await check(lambda row: row.parent_run_id == "r_05", parent_run_id="r_05")
    await check(lambda row: row.labels.get("team") == "blue", label=("team", "blue"))
    await check(lambda row: False, label=("team", "Blue"))
    await check(lambda row: False, label=("Team", "blue"))
    await check(lambda row: False, label=("blue", "team"))
    await check(lambda row: row.created_at > AT + 10, created_after=AT + 10)
    await check(lambda row: row.created_at < AT + 10, created_before=AT + 10)
    await check(lambda row: AT + 3 < row.created_at < AT + 6, created_after=AT + 3, created_before=AT + 6)
    await check(lambda row: False, created_after=AT + 5, created_before=AT + 6)
    await check(lambda row: True, created_after=0, created_before=2**50)
    await check(lambda row: row.run_id.startswith("r_1"), text="r_1")
    await check(lambda row: True, text="")
    await check(
        lambda row: row.status == "failed" and row.workflow_name == "refund" and row.labels.get("team") == "blue",
        statuses=("failed",),
        workflow_name="refund",
        label=("team", "blue"),
    )
    await check(
        lambda row: (
            row.status in ("failed", "running")
            and row.created_at > AT + 2
            and ("green" in row.labels.values() or row.run_id[:2] == "gr")
        ),
        statuses=("failed", "running"),
        created_after=AT + 2,
        text="GR",
    )
    await check(
        lambda row: row.parent_run_id == "r_05" and row.status == "failed", parent_run_id="r_05", statuses=("failed",)
    )


@on_every_store
async def test_text_is_found_in_ids_names_and_label_values_in_any_case(store: RunStore) -> None:
    await store.append(start("Order-1", created_at=AT, labels={"customer": "Müller"}))
    await store.append(start("order-2", created_at=AT + 1, labels={"customer": "STRASSE 7", "team": "Blue"}))
    await store.append(start("r_3", created_at=AT + 2, labels={"ORDER": "x"}, workflow_name="BlueMoon"))
    await store.append(start("preorder-4", created_at=AT + 3))
    for text, wanted in {
        "order": ["preorder-4", "order-2", "Order-1"],
        "ORDER-": ["preorder-4", "order-2", "Order-1"],
        "order-1": ["Order-1"],
        "order-11": [],
        "mÜLL": ["Order-1"],
        "ÜLLE": ["Order-1"],
        "straße": ["order-2"],
        "BLUE": ["r_3", "order-2"],
        "lue": ["r_3", "order-2"],
        "moon": ["r_3"],
        "refund": ["preorder-4", "order-2", "Order-1"],
        "customer": [],
        "x": ["r_3"],
        "Z": [],
        "@": [],
        "\U0010ffff": [],
    }.items():
        assert await listed(store, text=text) == wanted, text


@on_every_store
async def test_every_word_of_a_text_must_be_found_each_anywhere(store: RunStore) -> None:
    await store.append(start("order-1", created_at=AT, labels={"customer": "Ada Lovelace", "city": "London"}))
    await store.append(start("order-2", created_at=AT + 1, labels={"customer": "Ada Byron"}))
    await store.append(start("order-3", created_at=AT + 2, labels={"customer": "Byron", "note": "no ada here"}))
    for text, wanted in {
        "ada byron": ["order-3", "order-2"],
        "  BYRON\tada ": ["order-3", "order-2"],
        "love lond order": ["order-1"],
        "lace ada": ["order-1"],
        "ada berlin": [],
        "ada ada": ["order-3", "order-2", "order-1"],
        " ": ["order-3", "order-2", "order-1"],
    }.items():
        assert await listed(store, text=text) == wanted, text


@on_every_store
async def test_one_or_two_letters_are_found_where_words_begin(store: RunStore) -> None:
    await store.append(start("order-1", created_at=AT, labels={"customer": "Ada Lovelace"}))
    await store.append(start("x-2", created_at=AT + 1, labels={"customer": "ß"}))
    for text, wanted in {
        "o": ["order-1"],
        "lo": ["order-1"],
        "ov": [],
        "a": ["order-1"],
        "ad lo": ["order-1"],
        "x-": ["x-2"],
        "s": ["x-2"],
        "ss": ["x-2"],
        "-1": [],
        "\x01": [],
        "\x01o": [],
    }.items():
        assert await listed(store, text=text) == wanted, text


@on_every_store
async def test_a_label_with_a_nul_is_found_or_refused_and_never_only_kept(store: RunStore) -> None:
    write = start(labels={"n": "a\0b"})
    kept = ["r_1"] if isinstance(store.database, SqliteDatabase) else []
    if kept:
        await store.append(write)
    else:
        with pytest.raises(Rejected, match="TEXT_NOT_UNICODE"):
            await store.append(write)
    for text, wanted in {"a\0b": kept, "\0b": [], "a\x01b": [], "r_1": kept}.items():
        assert await listed(store, text=text) == wanted, text


@on_every_store
async def test_of_an_id_that_was_made_here_the_beginning_is_found(store: RunStore) -> None:
    made = [run_id_of(AT + number, bytes([number] * ENTROPY_BYTES)) for number in range(3)]
    for number, run_id in enumerate(made):
        await store.append(start(run_id, created_at=AT + number))
    await store.append(start(f"{made[1]}:charge:1", created_at=AT + 3, labels={"of": made[2]}))
    child = f"{made[1]}:charge:1"
    for text, wanted in {
        "r_": [child, *made[::-1]],
        made[0]: [made[0]],
        made[0][:20].lower(): [made[0]],
        made[0][:12]: [made[0]],
        made[0][:9]: [child, *made[::-1]],
        made[1]: [child, made[1]],
        child: [child],
        "charge:1": [child],
        made[2]: [child, made[2]],
        made[0][-8:]: [],
        made[0] + "0": [],
        "r_" + "0" * 26: [],
    }.items():
        assert await listed(store, text=text) == wanted, text


@on_every_store
async def test_a_text_that_is_far_too_long_is_refused(store: RunStore) -> None:
    await store.append(start("x" * limits.SEARCH_TEXT_CHARACTERS_MAX))
    assert await listed(store, text="x" * limits.SEARCH_TEXT_CHARACTERS_MAX) == [
        "x" * limits.SEARCH_TEXT_CHARACTERS_MAX
    ]
    words = " ".join("xx" for _ in range(80))
    assert await listed(store, text=words) == ["x" * limits.SEARCH_TEXT_CHARACTERS_MAX]
    with pytest.raises(Rejected, match="SEARCH_TEXT_TOO_LONG"):
        await listed(store, text="x" * (limits.SEARCH_TEXT_CHARACTERS_MAX + 1))


@on_every_store
async def test_wildcards_in_text_stand_for_themselves(store: RunStore) -> None:
    for number, name in enumerate(["50%", "50x", "a_b", "aXb", "c\\d", "*", "[a]", "?", "'", '"']):
        await store.append(start(f"r_{number}", labels={"name": name}, created_at=AT + number))
    for text, wanted in {
        "50%": ["r_0"],
        "%": [],
        "a_": ["r_2"],
        "_": [],
        "c\\": ["r_4"],
        "*": ["r_5"],
        "[": ["r_6"],
        "?": ["r_7"],
        "'": ["r_8"],
        '"': ["r_9"],
        "r_": [f"r_{number}" for number in range(9, -1, -1)],
        "r%": [],
    }.items():
        assert await listed(store, text=text) == wanted, text


@on_every_store
async def test_text_that_very_many_runs_have_is_found_too(store: RunStore) -> None:
    await asyncio.gather(
        *(
            store.append(start(f"R_{number:04}", created_at=AT + number, labels={"n": f"N{number}"}))
            for number in range(700)
        )
    )
    everything = [f"R_{number:04}" for number in range(699, -1, -1)]
    assert await listed(store, text="r_", limit=100) == everything
    assert await listed(store, text="n", limit=100) == everything
    assert await listed(store, text="r_", created_before=AT + 5) == everything[-5:]
    assert await listed(store, text="n6", statuses=("running",), limit=1_000) == [
        run_id for run_id in everything if str(int(run_id[2:])).startswith("6")
    ]
    assert await listed(store, text="r_", statuses=("failed",)) == []


@on_every_store
async def test_runs_are_found_by_who_started_them(store: RunStore) -> None:
    begun = [
        start(f"r_{number}", created_at=AT + number, started_by=who, labels={"n": "1"} if number % 2 else {})
        for number, who in enumerate(("key:ada", "key:bob", None, "key:ada", "Key:Ada"))
    ]
    await store.append(begun[0])
    await asyncio.gather(*(store.append(write) for write in begun[1:]))
    assert await listed(store, started_by="key:ada") == ["r_3", "r_0"]
    assert await listed(store, started_by="key:ada", label=("n", "1")) == ["r_3"]
    assert await listed(store, started_by="") == []
    # Somebody else goes on with it: who started it stays.
    await store.append(step(begun[0], started_by="key:bob", status="completed"))
    assert await listed(store, started_by="key:ada") == ["r_3", "r_0"]
    rows = [await store.row(write.row.run_id) for write in begun]
    assert [row and row.started_by for row in rows] == ["key:ada", "key:bob", None, "key:ada", "Key:Ada"]


@on_every_store
async def test_pages_continue_where_they_ended_whatever_comes_or_goes(store: RunStore) -> None:
    for number in range(10):
        await store.append(start(f"r_{number}", created_at=AT + number, status="completed", terminal=True))
    first = await store.list_runs(RunQuery(limit=4))
    assert [row.run_id for row in first.rows] == ["r_9", "r_8", "r_7", "r_6"]
    await store.append(start("newer", created_at=AT + 100))
    await store.append(start("as new as the last", created_at=AT + 9))
    await store.delete_runs(["r_8", "r_6", "r_4"])
    second = await store.list_runs(RunQuery(limit=4, cursor=first.next_cursor))
    assert [row.run_id for row in second.rows] == ["r_5", "r_3", "r_2", "r_1"]
    third = await store.list_runs(RunQuery(limit=4, cursor=second.next_cursor))
    assert [row.run_id for row in third.rows] == ["r_0"]
    assert third.next_cursor is None


@on_every_store
async def test_runs_of_one_moment_are_listed_once_each(store: RunStore) -> None:
    for number in range(25):
        await store.append(start(f"r_{number}"))
    assert await listed(store, limit=4) == [f"r_{number}" for number in range(24, -1, -1)]


@on_every_store
async def test_a_page_that_ends_with_the_last_run_has_no_next(store: RunStore) -> None:
    for number in range(4):
        await store.append(start(f"r_{number}"))
    page = await store.list_runs(RunQuery(limit=4))
    assert len(page.rows) == 4
    assert page.next_cursor is None
    assert (await store.list_runs(RunQuery(limit=3))).next_cursor is not None


@on_every_store
async def test_a_page_has_a_sensible_size(store: RunStore) -> None:
    await asyncio.gather(*(store.append(start(f"r_{number}")) for number in range(limits.RUNS_PAGE_MAX + 1)))
    page = await store.list_runs(RunQuery(limit=10**9))
    assert len(page.rows) == limits.RUNS_PAGE_MAX
    assert page.next_cursor is not None
    for limit in (0, -1):
        with pytest.raises(Rejected, match="INVALID_LIST_LIMIT"):
            await store.list_runs(RunQuery(limit=limit))


@on_every_store
async def test_a_cursor_that_no_listing_returned_is_refused(store: RunStore) -> None:
    await store.append(start())
    for cursor in ("", "k", "12", "k-5", "k 5", "k0x5", "kzz", "k\u0661", "k1_0", "'; DROP TABLE runs"):
        with pytest.raises(Rejected, match="INVALID_LIST_CURSOR"):
            await store.list_runs(RunQuery(cursor=cursor))
    assert (await store.list_runs(RunQuery(cursor="k" + "f" * 40))).rows != ()


# --- timers, work and workers --------------------------------------------------------------------


@on_every_store
async def test_due_runs_come_in_the_order_of_their_timers(store: RunStore) -> None:
    for run_id, wake_at in (("late", AT + 9), ("early", AT + 1), ("never", None), ("middle", AT + 5)):
        await store.append(start(run_id, wake_at=wake_at))
    assert await store.due(owner="w", now=AT, limit=10) == ()
    assert await store.due(owner="w", now=AT + 1, limit=10) == ("early",)
    assert await store.due(owner="w", now=AT + 100, limit=10) == ("early", "middle", "late")
    assert await store.due(owner="w", now=AT + 100, limit=2) == ("early", "middle")


@on_every_store
async def test_the_next_timer_is_the_soonest_after_a_moment(store: RunStore) -> None:
    assert await store.next_wake_at(after=0) is None
    first = start("a", wake_at=AT + 9)
    await store.append(first)
    await store.append(start("b", wake_at=AT + 3))
    await store.append(start("c"))
    assert await store.next_wake_at(after=0) == AT + 3
    assert await store.next_wake_at(after=AT + 3) == AT + 9
    assert await store.next_wake_at(after=AT + 9) is None
    await store.append(step(first, wake_at=AT + 1))
    assert await store.next_wake_at(after=0) == AT + 1
    await store.append(step(step(first), wake_at=None))
    assert await store.next_wake_at(after=0) == AT + 3


@on_every_store
async def test_timers_that_a_clock_ahead_has_set_are_found_by_their_runs_last_records(store: RunStore) -> None:
    await store.append(start("long", wake_at=AT + 900))
    await store.append(start("ahead", wake_at=AT + 520, updated_at=AT + 500))
    await store.append(start("sooner", wake_at=AT + 510, updated_at=AT + 500))
    await store.append(start("no timer", updated_at=AT + 500))
    assert [row.run_id for row in await store.timers_ahead(after=AT + 100, limit=9)] == ["sooner", "ahead"]
    assert [row.run_id for row in await store.timers_ahead(after=AT + 100, limit=1)] == ["sooner"]
    assert await store.timers_ahead(after=AT + 500, limit=9) == ()


@on_every_store
async def test_a_timer_belongs_to_whoever_works_on_its_run_while_they_are_listed(store: RunStore) -> None:
    await register_worker(store.database, "w1", at=AT)
    await store.append(start("owned", wake_at=AT, has_work=True, owner="w1"))
    await store.append(start("free", wake_at=AT + 1))
    await store.append(start("left by a stranger", wake_at=AT + 2, owner="never seen"))
    assert await store.due(owner="w1", now=AT + 9, limit=10) == ("owned", "free", "left by a stranger")
    assert await store.due(owner="w2", now=AT + 9, limit=10) == ("free", "left by a stranger")
    assert await store.due(owner="w2", now=2**62, limit=10) == ("free", "left by a stranger")
    assert await remove_worker(store.database, "w1")
    assert await store.due(owner="w2", now=AT + 9, limit=10) == ("owned", "free", "left by a stranger")


@on_every_store
async def test_work_is_claimed_when_its_owner_is_gone(store: RunStore) -> None:
    await register_worker(store.database, "w1", at=AT)
    properties: dict[str, dict[str, Any]] = {
        "no work": {},
        "no owner": {"has_work": True},
        "lives": {"has_work": True, "owner": "w1"},
        "mine": {"has_work": True, "owner": "w2"},
        "unknown": {"has_work": True, "owner": "never seen"},
        "idle": {"has_work": False, "owner": "never seen"},
    }
    for run_id, given in properties.items():
        await store.append(start(run_id, **given))
    assert set(await store.claim(owner="w2", limit=10)) == {"no owner", "unknown"}
    assert await store.claim(owner="w2", limit=10) == ()
    assert await remove_worker(store.database, "w1")
    assert await store.claim(owner="w2", limit=10) == ("lives",)
    for run_id, epoch in (("no owner", 1), ("lives", 1), ("mine", 0), ("unknown", 1)):
        row = await store.row(run_id)
        assert row is not None
        assert (row.owner, row.has_work, row.epoch) == ("w2", True, epoch)


@on_every_store
async def test_every_takeover_begins_a_new_epoch_also_for_an_owner_that_comes_back(store: RunStore) -> None:
    await store.append(start(has_work=True, owner="w1", epoch=1))
    for epoch, owner in enumerate(("w2", "w1", "w2"), 2):
        assert await store.claim(owner=owner, limit=5) == ("r_1",)
        row = await store.row("r_1")
        assert row is not None
        assert (row.owner, row.epoch) == (owner, epoch)


@on_every_store
async def test_a_decision_of_somebody_who_lost_the_run_is_not_stored(store: RunStore) -> None:
    first = start(has_work=True, owner="w1", epoch=1)
    await store.append(first)
    assert await store.claim(owner="w2", limit=5) == ("r_1",)
    stale = step(first)
    assert stale.expected_epoch == 1
    for same_index in (False, True):
        assert await store.append(replace(stale, same_index=same_index)) == SequenceConflict()
    # The same among others that are stored with one statement.
    together = [replace(stale, same_index=True), *(start(f"other {number}") for number in range(3))]
    assert await asyncio.gather(*map(store.append, together)) == [SequenceConflict(), *[Appended()] * 3]
    found = await store.row("r_1")
    assert found is not None
    assert (found.owner, found.epoch, found.seq) == ("w2", 2, first.row.seq)
    mine = replace(stale, expected_epoch=2, row=replace(stale.row, owner="w2", epoch=2))
    assert await store.append(mine) == Appended()
    assert not await store.set_work("r_1", has_work=True, owner=None, expected_epoch=1)
    assert await store.row("r_1") == mine.row


@on_every_store
async def test_a_claim_takes_no_more_than_its_limit_and_nothing_twice(store: RunStore) -> None:
    await asyncio.gather(*(store.append(start(f"r_{number}", has_work=True)) for number in range(50)))
    await register_worker(store.database, "w1", at=AT)
    await register_worker(store.database, "w2", at=AT)
    claims = await asyncio.gather(*(store.claim(owner=f"w{1 + number % 2}", limit=7) for number in range(10)))
    assert max(map(len, claims)) == 7
    claimed = [run_id for claim in claims for run_id in claim]
    assert sorted(claimed) == sorted(f"r_{number}" for number in range(50))


@on_every_store
async def test_a_claim_can_be_for_work_that_somebody_began_or_for_new_work(store: RunStore) -> None:
    await store.append(start("new", has_work=True))
    await store.append(start("begun", has_work=True, owner="gone"))
    assert await store.claim(owner="w1", limit=5, begun=True) == ("begun",)
    assert await store.has_unclaimed()
    assert await store.claim(owner="w1", limit=5, begun=False) == ("new",)
    assert not await store.has_unclaimed()


@on_every_store
async def test_work_and_timers_can_be_those_of_one_run_and_its_children(store: RunStore) -> None:
    for run_id in ("a", "a:child:1", "a:child:1:deep:1", "ab", "b:a:1", "A:child:2", "a%", "a_"):
        await store.append(start(run_id, has_work=True, wake_at=AT))
    tree = {"a", "a:child:1", "a:child:1:deep:1"}
    assert set(await store.due(owner="w", now=AT, limit=10, root_run_id="a")) == tree
    assert await store.has_unclaimed(root_run_id="a")
    assert set(await store.claim(owner="w", limit=10, root_run_id="a")) == tree
    assert not await store.has_unclaimed(root_run_id="a")
    assert await store.has_unclaimed()
    assert await store.claim(owner="w", limit=10, root_run_id="nobody") == ()


@on_every_store
async def test_work_can_be_noted_and_crossed_out(store: RunStore) -> None:
    await store.append(start())
    assert await store.set_work("r_1", has_work=True, owner="w1", expected_epoch=0)
    assert await store.row("r_1") == replace(start().row, has_work=True, owner="w1")
    assert await store.set_work("r_1", has_work=False, owner=None, expected_epoch=0)
    assert await store.row("r_1") == start().row
    assert not await store.set_work("nobody", has_work=True, owner="w1", expected_epoch=0)
    assert await listed(store) == ["r_1"]
    assert await store.claim(owner="w2", limit=5) == ()


@on_every_store
async def test_signs_of_life_are_counted_for_as_long_as_a_worker_is_listed(store: RunStore) -> None:
    assert not await record_heartbeat(store.database, "w1", at=AT)
    assert await list_workers(store.database) == ()
    await register_worker(store.database, "w1", at=AT)
    assert await record_heartbeat(store.database, "w1", at=AT + 7)
    assert await list_workers(store.database) == (worker("w1", 2, AT + 7),)
    await register_worker(store.database, "w1", at=AT + 8)
    assert await list_workers(store.database) == (worker("w1", 3, AT + 8),)
    assert await remove_worker(store.database, "w1")
    assert not await record_heartbeat(store.database, "w1", at=AT + 9)
    assert not await remove_worker(store.database, "w1")
    assert await list_workers(store.database) == ()


@on_every_store
async def test_a_worker_that_gave_a_sign_of_life_meanwhile_is_not_struck_off(store: RunStore) -> None:
    await store.append(start(has_work=True, owner="w1"))
    await register_worker(store.database, "w1", at=AT)
    assert await record_heartbeat(store.database, "w1", at=AT)
    assert not await remove_worker(store.database, "w1", beats=1)
    assert await store.claim(owner="w2", limit=5) == ()
    assert await remove_worker(store.database, "w1", beats=2)
    assert await store.claim(owner="w2", limit=5) == ("r_1",)


# --- definitions and schedules -------------------------------------------------------------------


@on_every_store
async def test_the_newest_definition_of_a_name_is_the_one_put_last(store: RunStore) -> None:
    assert await store.definitions.find_named("refund") is None
    for number in (1, 2):
        await store.definitions.put(definition(number))
    await store.definitions.put(definition(3, name="another"))
    assert await store.definitions.find_named("refund") == definition(2)
    assert await store.definitions.list_newest() == (definition(3, name="another"), definition(2))
    assert await store.definitions.find("hash-1") == definition(1)
    assert await store.definitions.find("hash-9") is None
    assert await store.definitions.find_named("Refund") is None


@on_every_store
async def test_a_definition_can_be_put_again_and_becomes_the_newest(store: RunStore) -> None:
    for number in (1, 2, 1):
        await store.definitions.put(definition(number))
    await store.definitions.put(replace(definition(1), created_at=AT + 99))
    assert await store.definitions.find_named("refund") == definition(1)
    assert await store.definitions.find("hash-2") == definition(2)
    assert await store.definitions.list_newest() == (definition(1),)


@on_every_store
async def test_schedules_are_kept_replaced_and_forgotten(store: RunStore) -> None:
    assert await list_schedules(store.database) == ()
    await put_schedule(store.database, schedule("b"))
    await put_schedule(store.database, schedule("a", next_at=None, paused=True, last_run_id="r_1"))
    assert await list_schedules(store.database) == (
        schedule("a", next_at=None, paused=True, last_run_id="r_1"),
        schedule("b"),
    )
    await put_schedule(store.database, schedule("a", next_at=AT + 5))
    assert await list_schedules(store.database) == (schedule("a", next_at=AT + 5), schedule("b"))
    assert await delete_schedule(store.database, "a") is True
    assert await delete_schedule(store.database, "a") is False
    assert await list_schedules(store.database) == (schedule("b"),)


@on_every_store
async def test_a_schedule_is_kept_only_if_it_stands_as_expected(store: RunStore) -> None:
    first, second = schedule("a"), schedule("a", next_at=AT + 5, paused=True, last_run_id="r_1")
    assert await put_schedule(store.database, second, expected=first) is False
    assert await list_schedules(store.database) == ()
    assert await put_schedule(store.database, first, expected=None) is True
    assert await put_schedule(store.database, second, expected=None) is False
    for other in (schedule("a", next_at=AT + 1), schedule("a", paused=True), schedule("a", spec={"cron": "1 * * * *"})):
        assert await put_schedule(store.database, second, expected=other) is False
    assert await list_schedules(store.database) == (first,)
    assert await put_schedule(store.database, second, expected=first) is True
    assert await put_schedule(store.database, first, expected=first) is False
    assert await list_schedules(store.database) == (second,)
    assert await put_schedule(store.database, first) is True


# --- forgetting ----------------------------------------------------------------------------------

ENDED: dict[str, Any] = {"status": "completed", "terminal": True}


@on_every_store
async def test_only_runs_that_have_ended_can_be_forgotten(store: RunStore) -> None:
    await store.append(start("ended", **ENDED, labels={"team": "blue"}))
    await store.append(start("goes on", labels={"team": "blue"}))
    await store.append(start("owes work", **ENDED, has_work=True))
    gone = await store.delete_runs(["ended", "goes on", "owes work", "ended", "unknown"])
    assert gone == 1
    assert sorted(await listed(store)) == ["goes on", "owes work"]
    assert await store.load("ended") is None
    assert await store.history("ended") == ()
    assert await listed(store, label=("team", "blue")) == ["goes on"]
    assert await listed(store, text="ended") == []


@on_every_store
async def test_a_child_is_kept_until_its_parent_has_ended(store: RunStore) -> None:
    parent = start("parent")
    await store.append(parent)
    await store.append(start("child", **ENDED, parent_run_id="parent"))
    await store.append(start("orphan", **ENDED, parent_run_id="nobody knows"))
    assert await store.delete_ended(before=AT + 1, limit=10) == 1
    assert await store.delete_runs(["child"]) == 0
    assert sorted(await listed(store)) == ["child", "parent"]
    await store.append(step(parent, **ENDED))
    assert await store.delete_runs(["child", "parent"]) == 2
    assert await listed(store) == []


@on_every_store
async def test_a_forgotten_id_can_be_used_again(store: RunStore) -> None:
    await store.append(start(**ENDED, records=5, labels={"team": "blue"}))
    await store.delete_runs(["r_1"])
    again = start(labels={"team": "green"})
    assert await store.append(again) == Appended()
    assert await store.load("r_1") == StoredRun(again.row, again.records)
    assert await listed(store, label=("team", "blue")) == []


@on_every_store
async def test_runs_that_ended_longest_ago_are_forgotten_first(store: RunStore) -> None:
    for number in (3, 1, 4, 0, 2):
        await store.append(start(f"r_{number}", **ENDED, updated_at=AT + number, created_at=AT - number))
    await store.append(start("goes on", updated_at=AT))
    assert await store.delete_ended(before=AT, limit=10) == 0
    assert await store.delete_ended(before=AT + 4, limit=3) == 3
    assert sorted(await listed(store)) == ["goes on", "r_3", "r_4"]
    assert await store.delete_ended(before=AT + 4, limit=3) == 1
    assert await store.delete_ended(before=AT + 4, limit=3) == 0
    assert sorted(await listed(store)) == ["goes on", "r_4"]


def test_the_defaults_of_a_row_are_those_of_a_run_that_nobody_works_on() -> None:
    row = start().row
    assert row == RunRow(
        run_id="r_1",
        workflow_name="refund",
        workflow_version="1.0.0",
        definition_hash="hash-1",
        status="running",
        seq=2,
        created_at=AT,
        updated_at=AT,
        parent_run_id=None,
        labels={},
        wake_at=None,
        has_work=False,
        owner=None,
        terminal=False,
        tenant="default",
    )


# --- spending ------------------------------------------------------------------------------------


async def _tree(store: RunStore) -> None:
    """A run, one that a node of it called, and a child of that."""
    await store.append(start("r_top"))
    await store.append(start("r_called", labels={CALLER_LABEL: "r_top"}))
    await store.append(start("r_called:child", parent_run_id="r_called", labels={CALLER_LABEL: "r_top"}))


@on_every_store
async def test_what_a_run_spends_counts_for_every_run_above_it(store: RunStore) -> None:
    await _tree(store)
    assert await read_spending(store.database, "r_top") is None
    assert (
        await spend(store.database, "r_called:child", Spent(turns=1, requests=1, input_tokens=7, cost=5), at=AT) is None
    )
    assert (
        await spend(store.database, "r_called:child", Spent(input_tokens=-2, output_tokens=3, unpriced=1), at=AT)
        is None
    )
    used = Spent(turns=1, requests=1, input_tokens=5, output_tokens=3, cost=5, unpriced=1)
    assert await read_spending(store.database, "r_called:child") == RunSpending(own=used, below=Spent())
    assert await read_spending(store.database, "r_called") == RunSpending(own=Spent(), below=used)
    assert await read_spending(store.database, "r_top") == RunSpending(own=Spent(), below=used)


@on_every_store
async def test_a_limit_above_refuses_and_counts_nothing(store: RunStore) -> None:
    once = Spent(turns=1, requests=1, input_tokens=10, cost=10)
    for kind, given in (
        ("turns", AgentLimits(turns=2)),
        ("tokens", AgentLimits(tokens=20)),
        ("cost", AgentLimits(cost=20)),
        ("time", AgentLimits(time_ms=2)),
    ):
        top, called = f"r_{kind}", f"r_{kind}_called"
        await store.append(start(top))
        await store.append(start(called, labels={CALLER_LABEL: top}))
        assert await spend(store.database, top, once, at=AT, limits=given, checked=True) is None
        assert await spend(store.database, called, once, at=AT + 1, checked=True) is None
        refused = await spend(store.database, called, once, at=AT + 2, checked=True)
        assert refused is not None
        assert (refused.run_id, refused.kind, refused.limits, refused.used.turns) == (top, kind, given, 2)
        assert await read_spending(store.database, top) == RunSpending(own=once, below=once)


@on_every_store
async def test_of_many_runs_at_once_only_as_many_turns_are_taken_as_there_are(store: RunStore) -> None:
    await store.append(start("r_top"))
    await spend(store.database, "r_top", Spent(turns=1), at=AT, limits=AgentLimits(turns=6), checked=True)
    for number in range(20):
        await store.append(start(f"r_{number}", labels={CALLER_LABEL: "r_top"}))
    asked = [spend(store.database, f"r_{number}", Spent(turns=1), at=AT, checked=True) for number in range(20)]
    assert sum(found is None for found in await asyncio.gather(*asked)) == 5


@on_every_store
async def test_the_limits_of_a_deleted_run_hold_as_long_as_a_run_below_it_goes_on(store: RunStore) -> None:
    top = start("r_top")
    below = start("r_called", labels={CALLER_LABEL: "r_top"})
    await store.append(top)
    await store.append(below)
    await spend(store.database, "r_top", Spent(turns=1), at=AT, limits=AgentLimits(turns=2), checked=True)
    await spend(store.database, "r_called", Spent(turns=1), at=AT, checked=True)
    await store.append(step(top, status="completed", terminal=True))
    assert await store.delete_runs(["r_top"]) == 1
    assert await spend(store.database, "r_called", Spent(turns=1), at=AT, checked=True) is not None
    await store.append(step(below, status="completed", terminal=True))
    assert await store.delete_runs(["r_called"]) == 1
    assert await read_spending(store.database, "r_called") is None
    assert await read_spending(store.database, "r_top") is None
