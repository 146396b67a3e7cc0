"""Schedules start runs by the clock, once, and as their policies say."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from penstock.base.clock import ManualClock
from penstock.base.errors import Conflict, Rejected
from penstock.base.json import JsonObject
from penstock.definitions.build.workflow import build_workflow
from penstock.definitions.durations import parse_instant_ms
from penstock.engine import inputs
from penstock.runtime.host.embedded import EmbeddedHost
from penstock.runtime.schedules.scheduler import Postponed, Scheduler, Skipped, Started
from penstock.runtime.schedules.timetables import next_fire_at, timetable_of
from penstock.runtime.stores.sqlite.temporary import TemporaryDatabase
from penstock.runtime.tables.runs.store import RunStore
from penstock.runtime.tables.schedules import list_schedules, put_schedule
from tests.opened_database import run_on

NOON = parse_instant_ms("2026-03-28T12:00:00Z") or 0
MINUTE_MS = 60_000
WAITS: JsonObject = {
    "penstock": "v1",
    "name": "nightly",
    "nodes": [{"id": "w", "type": "wait", "signal": "never"}, {"id": "e", "type": "end"}],
}
AT_ONCE: JsonObject = {"penstock": "v1", "name": "quick", "nodes": [{"id": "e", "type": "end", "output": "ok"}]}


def instant(text: str) -> int:
    found = parse_instant_ms(text)
    assert found is not None
    return found


def scheduled(test: Callable[[Scheduler, ManualClock], Awaitable[None]]) -> None:
    """Run a test with a scheduler on a store and a clock that is moved by hand."""

    async def run(store: RunStore) -> None:
        clock = ManualClock(NOON)
        host = EmbeddedHost(store=store, clock=clock, worker_id="w")
        for document in (WAITS, AT_ONCE):
            await host.register(build_workflow(document))
        await test(Scheduler(host=host, store=host.store), clock)

    run_on(RunStore(TemporaryDatabase()), run)


def test_a_daily_schedule_keeps_its_wall_clock_time_across_the_change_to_summer_time() -> None:
    timetable = timetable_of({"cron": "30 7 * * *", "timezone": "Europe/Berlin"})
    before = next_fire_at("s", timetable, instant("2026-03-28T00:00:00Z"))
    after = next_fire_at("s", timetable, instant("2026-03-29T00:00:00Z"))
    assert before == instant("2026-03-28T06:30:00Z")
    assert after == instant("2026-03-29T05:30:00Z")


def test_jitter_is_the_same_for_every_process_and_stays_within_its_bound() -> None:
    timetable = timetable_of({"cron": "0 * * * *", "jitter": "5m"})
    plain = timetable_of({"cron": "0 * * * *"})
    moments = [next_fire_at(f"s{number}", timetable, NOON) for number in range(50)]
    assert moments == [next_fire_at(f"s{number}", timetable, NOON) for number in range(50)]
    base = next_fire_at("s", plain, NOON)
    assert base is not None
    assert all(moment is not None and base <= moment < base + 5 * MINUTE_MS for moment in moments)
    assert len(set(moments)) > 10


@pytest.mark.parametrize(
    "spec",
    [
        {"cron": "never"},
        {"cron": "* * * *"},
        {"cron": "0 0 * * *", "timezone": "Mars/Olympus"},
        {"cron": "0 0 * * *", "overlap": "perhaps"},
        {"cron": "0 0 * * *", "jitter": "soon"},
    ],
)
def test_a_specification_with_a_mistake_is_refused(spec: JsonObject) -> None:
    with pytest.raises(Rejected) as caught:
        timetable_of(spec)
    assert caught.value.code == "SCHEDULE_INVALID"
    assert caught.value.hint


def test_a_due_schedule_starts_its_run_once() -> None:
    async def test(scheduler: Scheduler, clock: ManualClock) -> None:
        await scheduler.put("hourly", "quick", {"cron": "0 * * * *"})
        assert await scheduler.fire_due() == {}
        clock.advance(60 * MINUTE_MS)
        first = await scheduler.fire_due()
        assert first == {"hourly": Started(f"hourly@{NOON + 60 * MINUTE_MS}")}
        assert await scheduler.fire_due() == {}
        row = await scheduler.host.row(f"hourly@{NOON + 60 * MINUTE_MS}")
        assert row is not None
        assert row.labels == {"schedule": "hourly"}

    scheduled(test)


def test_two_processes_that_find_one_schedule_due_start_one_run() -> None:
    async def test(scheduler: Scheduler, clock: ManualClock) -> None:
        row = await scheduler.put("hourly", "quick", {"cron": "0 * * * *"})
        clock.advance(60 * MINUTE_MS)
        await scheduler.fire_due()
        await put_schedule(scheduler.store.database, row)  # the other process still sees it due
        assert await scheduler.fire_due() == {"hourly": Started(f"hourly@{NOON + 60 * MINUTE_MS}")}

    scheduled(test)


@pytest.mark.parametrize(
    ("overlap", "expected"),
    [("skip", Skipped), ("queue", Postponed), ("allow", Started), ("cancel_running", Started)],
)
def test_a_run_that_is_still_going_is_treated_as_the_policy_says(overlap: str, expected: type) -> None:
    async def test(scheduler: Scheduler, clock: ManualClock) -> None:
        await scheduler.put("s", "nightly", {"cron": "* * * * *", "overlap": overlap})
        clock.advance(MINUTE_MS)
        first = (await scheduler.fire_due())["s"]
        assert isinstance(first, Started)
        clock.advance(MINUTE_MS)
        assert isinstance((await scheduler.fire_due())["s"], expected)
        previous = await scheduler.host.read(first.run_id)
        assert previous is not None
        assert (previous.status == "cancelled") == (overlap == "cancel_running")

    scheduled(test)


def test_a_run_that_was_continued_is_still_going() -> None:
    async def test(scheduler: Scheduler, clock: ManualClock) -> None:
        again: JsonObject = {"id": "again", "type": "continue_as_new", "input": {}}
        waits: JsonObject = {"id": "w", "type": "wait", "signal": "go"}
        await scheduler.host.register(build_workflow({"penstock": "v1", "name": "endless", "nodes": [waits, again]}))
        await scheduler.put("s", "endless", {"cron": "* * * * *", "overlap": "skip"})
        clock.advance(MINUTE_MS)
        first = (await scheduler.fire_due())["s"]
        assert isinstance(first, Started)
        await scheduler.host.send(first.run_id, inputs.SendSignal(at=clock.now_ms(), name="go"))
        clock.advance(MINUTE_MS)
        assert (await scheduler.fire_due())["s"] == Skipped(f"run {first.run_id}~2 is still going")

    scheduled(test)


def test_a_start_that_was_missed_for_too_long_is_skipped_and_a_recent_one_is_caught_up() -> None:
    async def test(scheduler: Scheduler, clock: ManualClock) -> None:
        await scheduler.put("late", "quick", {"cron": "0 * * * *", "catch_up": "10m"})
        await scheduler.put("patient", "quick", {"cron": "0 * * * *", "catch_up": "2h"})
        clock.advance(90 * MINUTE_MS)
        outcomes = await scheduler.fire_due()
        assert isinstance(outcomes["late"], Skipped)
        assert isinstance(outcomes["patient"], Started)

    scheduled(test)


def test_a_paused_schedule_does_not_start_and_run_now_starts_at_once() -> None:
    async def test(scheduler: Scheduler, clock: ManualClock) -> None:
        await scheduler.put("s", "quick", {"cron": "* * * * *"})
        await scheduler.pause("s", paused=True)
        clock.advance(5 * MINUTE_MS)
        assert await scheduler.fire_due() == {}
        run_id = await scheduler.run_now("s")
        assert await scheduler.host.read(run_id) is not None

    scheduled(test)


def test_the_triggers_of_a_document_become_schedules() -> None:
    async def test(scheduler: Scheduler, clock: ManualClock) -> None:
        document: JsonObject = {**AT_ONCE, "triggers": [{"schedule": {"cron": "0 3 * * *"}, "input": {"n": 1}}]}
        (row,) = await scheduler.put_triggers(build_workflow(document))
        assert (row.schedule_id, row.workflow_name, row.spec["input"]) == ("quick:0", "quick", {"n": 1})

    scheduled(test)


def test_a_trigger_that_is_switched_off_makes_no_schedule_and_takes_away_the_one_it_had() -> None:
    async def test(scheduler: Scheduler, clock: ManualClock) -> None:
        trigger: JsonObject = {"schedule": {"cron": "0 3 * * *"}}
        for enabled in (True, False):
            document: JsonObject = {**AT_ONCE, "triggers": [{**trigger, "enabled": enabled}]}
            await scheduler.put_triggers(build_workflow(document))
            assert len(await list_schedules(scheduler.store.database)) == (1 if enabled else 0)

    scheduled(test)


def test_schedules_of_a_document_that_is_gone_go_too() -> None:
    async def test(scheduler: Scheduler, clock: ManualClock) -> None:
        gone: JsonObject = {**AT_ONCE, "name": "gone", "triggers": [{"schedule": {"cron": "0 3 * * *"}}]}
        await scheduler.put_triggers(build_workflow(gone))
        await scheduler.put("by hand", "gone", {"cron": "0 * * * *", "origin": "operation"})
        await scheduler.follow("gone")  # nobody has registered it
        assert [row.schedule_id for row in await list_schedules(scheduler.store.database)] == ["by hand"]

    scheduled(test)


def test_a_schedule_starts_runs_in_its_tenant() -> None:
    async def test(scheduler: Scheduler, clock: ManualClock) -> None:
        theirs: JsonObject = {**AT_ONCE, "nodes": [{"id": "e", "type": "end", "output": "theirs"}]}
        await scheduler.host.register(build_workflow(theirs), tenant="acme")
        await scheduler.put("ours", "quick", {"cron": "0 * * * *"})
        await scheduler.put("theirs", "quick", {"cron": "0 * * * *"}, tenant="acme")
        await scheduler.put("nobody's", "nightly", {"cron": "0 * * * *"}, tenant="acme")
        clock.advance(60 * MINUTE_MS)
        outcomes = await scheduler.fire_due()
        assert outcomes["nobody's"] == Skipped("there is no workflow nightly")
        for name, tenant, result in (("ours", "default", "ok"), ("theirs", "acme", "theirs")):
            outcome = outcomes[name]
            assert isinstance(outcome, Started)
            state = await scheduler.host.read(outcome.run_id)
            assert state is not None
            assert (state.tenant, state.result) == (tenant, result)

    scheduled(test)


def test_a_schedule_of_another_tenant_is_not_replaced() -> None:
    async def test(scheduler: Scheduler, clock: ManualClock) -> None:
        await scheduler.put("s", "quick", {"cron": "0 * * * *"}, tenant="acme")
        with pytest.raises(Conflict, match="SCHEDULE_ID_TAKEN"):
            await scheduler.put("s", "quick", {"cron": "5 * * * *"})
        [kept] = await list_schedules(scheduler.store.database)
        assert kept.spec == {"cron": "0 * * * *"}

    scheduled(test)


def test_triggers_of_one_document_make_a_schedule_in_each_tenant_and_go_with_it() -> None:
    async def test(scheduler: Scheduler, clock: ManualClock) -> None:
        workflow = build_workflow({**AT_ONCE, "triggers": [{"schedule": {"cron": "0 * * * *"}}]})
        for tenant in ("default", "acme"):
            await scheduler.host.register(workflow, tenant=tenant)
            await scheduler.put_triggers(workflow, tenant=tenant)
        await scheduler.put("by hand", "quick", {"cron": "0 * * * *"}, tenant="acme")
        store = scheduler.store
        assert [row.schedule_id for row in await list_schedules(store.database)] == [
            "acme~.quick:0",
            "by hand",
            "quick:0",
        ]
        await scheduler.drop_triggers("quick", tenant="acme")
        assert [row.schedule_id for row in await list_schedules(store.database)] == ["by hand", "quick:0"]
        await scheduler.drop_triggers("nobody", tenant="acme")

    scheduled(test)


# --- clocks that are set ------------------------------------------------------------------------------

QUARTER_MS = 90 * 24 * 60 * MINUTE_MS


def test_a_clock_that_was_ahead_for_a_moment_leaves_no_schedule_in_the_future() -> None:
    async def test(scheduler: Scheduler, clock: ManualClock) -> None:
        await scheduler.put("hourly", "quick", {"cron": "0 * * * *"})
        await scheduler.put("spread", "quick", {"cron": "0 * * * *", "jitter": "5m"})
        await scheduler.put("patient", "quick", {"cron": "0 0 1 * *", "catch_up": "1d"})
        before = {row.schedule_id: row.next_at for row in await list_schedules(scheduler.store.database)}
        clock.advance(QUARTER_MS)
        assert all(isinstance(outcome, Skipped) for outcome in (await scheduler.fire_due()).values())
        clock.advance(-QUARTER_MS)
        await scheduler.fire_due()
        assert {row.schedule_id: row.next_at for row in await list_schedules(scheduler.store.database)} == before

    scheduled(test)


def test_a_schedule_that_was_made_while_the_clock_was_ahead_is_found_by_the_next_process() -> None:
    async def test(scheduler: Scheduler, clock: ManualClock) -> None:
        clock.advance(QUARTER_MS)
        await scheduler.put("hourly", "quick", {"cron": "0 * * * *"})
        clock.advance(-QUARTER_MS)
        later = Scheduler(host=scheduler.host, store=scheduler.store)
        await later.fire_due()
        [row] = await list_schedules(scheduler.store.database)
        assert row.next_at == NOON + 60 * MINUTE_MS

    scheduled(test)


def test_a_start_that_was_due_while_the_clock_was_ahead_is_made_up_for() -> None:
    async def test(scheduler: Scheduler, clock: ManualClock) -> None:
        await scheduler.put("hourly", "quick", {"cron": "0 * * * *"})
        clock.advance(60 * MINUTE_MS - 5_000)
        await scheduler.fire_due()
        clock.advance(QUARTER_MS)
        await scheduler.fire_due()
        clock.advance(-QUARTER_MS + 10_000)
        assert await scheduler.fire_due() == {"hourly": Started(f"hourly@{NOON + 60 * MINUTE_MS}")}

    scheduled(test)


def test_a_start_that_happened_is_neither_repeated_nor_cancelled_when_the_clock_moves_back() -> None:
    async def test(scheduler: Scheduler, clock: ManualClock) -> None:
        await scheduler.put("hourly", "nightly", {"cron": "0 * * * *", "overlap": "cancel_running"})
        clock.advance(60 * MINUTE_MS)
        await scheduler.fire_due()
        clock.advance(QUARTER_MS)
        await scheduler.fire_due()
        clock.advance(-QUARTER_MS + 10_000)
        await scheduler.fire_due()
        row = await scheduler.host.row(f"hourly@{NOON + 60 * MINUTE_MS}")
        assert row is not None
        assert not row.terminal
        [schedule] = await list_schedules(scheduler.store.database)
        assert schedule.next_at == NOON + 120 * MINUTE_MS

    scheduled(test)
