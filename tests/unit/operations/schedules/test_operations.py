"""Schedules through the gate: who made them, when they start, what they started."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from penstock.runtime.tables.schedules import list_schedules, put_schedule
from tests.unit.operations.conftest import Caller, OpenGate
from tests.unit.operations.documents import ASK, DOUBLE, workflow
from tests.unit.operations.running import run, status

NIGHTLY: dict[str, Any] = {"workflow_id": "double", "cron": "0 3 * * *", "input": {"number": 1}}


def with_triggers(*triggers: dict[str, Any]) -> dict[str, Any]:
    return workflow("timed", {"id": "done", "type": "end", "output": 1}, triggers=list(triggers))


def test_a_schedule_is_made_seen_changed_and_deleted(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        reply = await caller.reply("schedule.create", schedule_id="nightly", timezone="Europe/Berlin", **NIGHTLY)
        assert reply.location == "/schedules/nightly"
        made = await caller.call("schedule.get", schedule_id="nightly")
        assert (made["origin"], made["workflow_id"], made["overlap"]) == ("operation", "double", "skip")
        assert made["next_at"].endswith(":00:00.000Z")
        assert made["last_run"] is None
        changed = await caller.call("schedule.update", schedule_id="nightly", cron="30 4 * * *", jitter="10s")
        assert (changed["cron"], changed["timezone"], changed["jitter"]) == ("30 4 * * *", "Europe/Berlin", "10s")
        assert changed["input"] == {"number": 1}
        assert (await caller.call("schedule.update", schedule_id="nightly", jitter=None))["jitter"] is None
        assert (await caller.refusal("schedule.create", schedule_id="nightly", **NIGHTLY)).code == "SCHEDULE_EXISTS"
        assert await caller.call("schedule.delete", schedule_id="nightly") == {"id": "nightly", "deleted": True}
        assert (await caller.refusal("schedule.get", schedule_id="nightly")).code == "SCHEDULE_NOT_FOUND"

    run(open_caller, test)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"cron": "every day"}, "SCHEDULE_INVALID"),
        ({"timezone": "Nowhere/Town"}, "SCHEDULE_INVALID"),
        ({"timezone": "../../etc/passwd"}, "SCHEDULE_INVALID"),
        ({"catch_up": "a while"}, "SCHEDULE_INVALID"),
        ({"overlap": "whatever"}, "INVALID_ARGUMENTS"),
        ({"input": {}}, "INPUT_INVALID"),
        ({"workflow_id": "nothing"}, "WORKFLOW_NOT_FOUND"),
        ({"schedule_id": "a:b"}, "INVALID_ARGUMENTS"),
    ],
)
def test_what_could_not_start_is_refused_when_it_is_made(
    open_caller: OpenGate, change: dict[str, Any], code: str
) -> None:
    async def test(caller: Caller) -> None:
        assert (await caller.refusal("schedule.create", **{**NIGHTLY, **change})).code == code
        assert (await caller.call("schedule.list"))["items"] == []

    run(open_caller, test)


def test_a_schedule_that_is_due_starts_an_execution_that_is_shown(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await caller.call("schedule.create", schedule_id="nightly", **NIGHTLY)
        scheduler, store = caller.penstock.scheduler, caller.penstock.store
        (row,) = await list_schedules(store.database)
        await put_schedule(store.database, replace(row, next_at=caller.gate.services.clock.now_ms() - 1_000))
        await scheduler.fire_due()
        last = (await caller.call("schedule.get", schedule_id="nightly"))["last_run"]
        assert last["execution_id"].startswith("nightly@")
        assert last["labels"] == {"schedule": "nightly"}

    run(open_caller, test)


def test_a_paused_schedule_has_no_next_start_and_can_be_started_by_hand(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await caller.call("schedule.create", schedule_id="nightly", paused=True, **NIGHTLY)
        paused = await caller.call("schedule.get", schedule_id="nightly")
        assert (paused["paused"], paused["next_at"]) == (True, None)
        resumed = await caller.call("schedule.resume", schedule_id="nightly")
        assert (resumed["paused"], resumed["next_at"] is None) == (False, False)
        assert (await caller.call("schedule.pause", schedule_id="nightly"))["paused"] is True
        reply = await caller.reply("schedule.run_now", schedule_id="nightly", idempotency_key="k")
        again = await caller.reply("schedule.run_now", schedule_id="nightly", idempotency_key="k")
        assert again.value["execution_id"] == reply.value.execution_id
        last = (await caller.call("schedule.get", schedule_id="nightly"))["last_run"]
        assert last["execution_id"] == reply.value.execution_id

    run(open_caller, test)


def test_the_rule_for_executions_that_still_go_on_holds_by_hand_too(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await caller.call("schedule.create", schedule_id="s", workflow_id="ask", cron="0 3 * * *")
        await caller.call("schedule.run_now", schedule_id="s")
        assert (await caller.refusal("schedule.run_now", schedule_id="s")).code == "SCHEDULE_NOT_STARTED"

    run(open_caller, test)


def test_schedules_of_documents_follow_the_document(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        morning = {"id": "morning", "schedule": {"cron": "0 8 * * *"}}
        evening = {"id": "evening", "schedule": {"cron": "0 20 * * *"}}
        await caller.call("workflow.create", document=with_triggers(morning, evening))
        found = await caller.call("schedule.list")
        assert [(item["schedule_id"], item["origin"]) for item in found["items"]] == [
            ("evening", "document"),
            ("morning", "document"),
        ]
        for call in ("update", "delete"):
            assert (await caller.refusal(f"schedule.{call}", schedule_id="morning")).code == "SCHEDULE_OF_DOCUMENT"
        assert (await caller.call("schedule.pause", schedule_id="morning"))["paused"] is True
        later = {"id": "morning", "schedule": {"cron": "0 9 * * *"}}
        await caller.call("workflow.update", workflow_id="timed", document=with_triggers(later))
        (left,) = (await caller.call("schedule.list"))["items"]
        assert (left["schedule_id"], left["cron"], left["paused"]) == ("morning", "0 9 * * *", True)
        await caller.call("workflow.delete", workflow_id="timed")
        assert (await caller.call("schedule.list"))["items"] == []

    run(open_caller, test)


def test_a_document_does_not_take_over_a_schedule_that_somebody_made(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await caller.call("schedule.create", schedule_id="nightly", **NIGHTLY)
        clash = {"id": "nightly", "schedule": {"cron": "0 8 * * *"}}
        refused = await caller.refusal("workflow.create", document=with_triggers(clash))
        assert (refused.code, refused.details["workflow_id"]) == ("NAME_TAKEN", "double")
        kept = await caller.call("schedule.get", schedule_id="nightly")
        assert (kept["origin"], kept["workflow_id"], kept["cron"]) == ("operation", "double", "0 3 * * *")
        taken = await caller.refusal("schedule.create", **{**NIGHTLY, "schedule_id": "nightly"})
        assert taken.code == "SCHEDULE_EXISTS"

    run(open_caller, test)


def test_schedules_are_listed_in_pages_and_by_workflow(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        for number in range(3):
            await caller.call("schedule.create", schedule_id=f"s{number}", **NIGHTLY)
        await caller.call("schedule.create", schedule_id="t", workflow_id="ask", cron="0 3 * * *")
        first = await caller.call("schedule.list", limit=2)
        rest = await caller.call("schedule.list", limit=2, cursor=first["next_cursor"])
        ids = [item["schedule_id"] for item in first["items"] + rest["items"]]
        assert (ids, rest["next_cursor"]) == (["s0", "s1", "s2", "t"], None)
        of_one = await caller.call("schedule.list", workflow_id="ask")
        assert [item["schedule_id"] for item in of_one["items"]] == ["t"]

    run(open_caller, test)


def test_tenants_have_schedules_of_their_own(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        acme = await caller.new_caller("*", tenant="acme")
        await acme.call("workflow.import", workflows=[DOUBLE, ASK])
        for one in (caller, acme):
            await one.call("schedule.create", schedule_id="s", workflow_id="ask", cron="0 3 * * *")
        await caller.call("schedule.create", schedule_id="ours", **NIGHTLY)
        assert (await acme.refusal("schedule.pause", schedule_id="ours")).code == "SCHEDULE_NOT_FOUND"
        assert (await caller.refusal("schedule.delete", schedule_id="acme~.s")).code == "SCHEDULE_NOT_FOUND"
        started = await acme.call("schedule.run_now", schedule_id="s")
        assert started["execution_id"].startswith("s@")
        await status(acme, f"acme~.{started['execution_id']}", "waiting_input")
        (seen,) = (await acme.call("execution.list"))["items"]
        assert (seen["execution_id"], seen["labels"]) == (started["execution_id"], {"schedule": "s"})
        assert (await caller.call("execution.list"))["items"] == []

    run(open_caller, test)
