"""Changing executions, and telling them something."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from penstock.app.os_users import os_user
from penstock.engine import inputs
from tests.unit.operations.conftest import Caller, OpenGate
from tests.unit.operations.documents import ASK, WAIT, workflow
from tests.unit.operations.running import ended, run, status


async def start(caller: Caller, name: str, execution_id: str, **more: Any) -> None:
    await caller.call("workflow.execute", workflow_id=name, execution_id=execution_id, **more)


def test_an_execution_is_paused_resumed_and_cancelled(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await start(caller, "ask", "x")
        assert (await caller.call("execution.pause", execution_id="x", reason="lunch"))["status"] == "paused"
        assert (await caller.refusal("execution.pause", execution_id="x")).code == "PAUSE_NOT_ALLOWED"
        assert (await caller.call("execution.resume", execution_id="x"))["status"] == "waiting_input"
        assert (await caller.refusal("execution.resume", execution_id="x")).code == "RESUME_NOT_ALLOWED"
        assert (await caller.call("execution.cancel", execution_id="x", reason="enough"))["status"] == "cancelled"
        assert (await caller.refusal("execution.cancel", execution_id="x")).code == "CANCEL_NOT_ALLOWED"
        view = await caller.call("execution.status", execution_id="x")
        assert view["error"] == {"code": "CANCELLED", "message": "enough", "node_id": "question", "details": None}
        assert [node["status"] for node in view["nodes"]] == ["cancelled", "pending"]

    run(open_caller, test)


@pytest.mark.parametrize("verb", ["pause", "resume", "cancel", "delete", "history", "status", "stream"])
def test_what_does_not_exist_is_not_found(open_caller: OpenGate, verb: str) -> None:
    async def test(caller: Caller) -> None:
        error = await caller.refusal(f"execution.{verb}", execution_id="nothing")
        assert error.code == "EXECUTION_NOT_FOUND"

    run(open_caller, test)


def test_the_first_answer_counts_and_the_second_learns_whose_it_was(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        person = await caller.new_caller("execution:*", name="Ada")
        await start(caller, "ask", "x")
        unfit = await caller.refusal("execution.answer", execution_id="x", answer={"ok": "yes"})
        assert unfit.code == "ANSWER_INVALID"
        assert [item["pointer"] for item in unfit.details["errors"]] == ["/answer/ok"]  # type: ignore[union-attr,index,call-overload]
        await person.call("execution.answer", execution_id="x", answer={"ok": True})
        late = await caller.refusal("execution.answer", execution_id="x", answer={"ok": False}, node_id="question")
        assert late.code == "ALREADY_ANSWERED"
        assert str(late.details["answered_by"]).startswith("key:")
        assert (late.details["node_id"], late.details["visit"]) == ("question", 1)
        assert (await ended(caller, "x"))["output"] == {"ok": True}
        elsewhere = await caller.refusal("execution.answer", execution_id="x", answer={"ok": True}, node_id="done")
        assert elsewhere.code == "NO_OPEN_QUESTION"

    run(open_caller, test)


def test_two_answers_at_once_are_taken_once(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await start(caller, "ask", "x")
        answers = [caller.outcome("execution.answer", execution_id="x", answer={"ok": bool(n % 2)}) for n in range(8)]
        outcomes = [type(outcome).__name__ for outcome in await asyncio.gather(*answers)]
        assert sorted(outcomes) == ["AnsweredCall"] + ["RefusedCall"] * 7

    run(open_caller, test)


def test_several_open_questions_are_told_apart(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await start(caller, "both", "x")
        unclear = await caller.refusal("execution.answer", execution_id="x", answer={"ok": True})
        assert unclear.code == "QUESTION_AMBIGUOUS"
        assert unclear.details["interrupt_ids"] == ["question:1", "question:2"]
        await caller.call("execution.answer", execution_id="x", answer={"ok": True}, interrupt_id="question:2")
        await caller.call("execution.answer", execution_id="x", answer={"ok": False}, node_id="question", visit=1)
        assert (await ended(caller, "x"))["output"] == [{"ok": False}, {"ok": True}]

    run(open_caller, test)


def test_signals_count_once_by_their_id(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await start(caller, "wait", "x")
        for number in range(3):
            await caller.call("execution.signal", execution_id="x", name="go", payload=number, signal_id="s")
        await caller.call("execution.signal", execution_id="x", name="end")
        assert (await ended(caller, "x"))["output"] == 0
        assert (await caller.refusal("execution.signal", execution_id="x", name="go")).code == "SIGNAL_NOT_AWAITING"

    run(open_caller, test)


def test_a_signal_with_an_idempotency_key_is_sent_once(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await start(caller, "wait", "x")
        for _ in range(2):
            await caller.reply("execution.signal", execution_id="x", name="end", idempotency_key="k")
        history = await caller.call("execution.history", execution_id="x", limit=500)
        assert [item["name"] for item in history["items"]].count("SignalBuffered") == 1

    run(open_caller, test)


def test_an_update_answers_with_what_came_of_the_signal(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await start(caller, "wait", "x")
        update: dict[str, Any] = {"execution_id": "x", "name": "go", "query": ".state.heard", "signal_id": "s"}
        reply = await caller.reply("execution.update", payload={"n": 7}, **update)
        assert (reply.status, reply.value.taken, reply.value.value) == (None, True, {"n": 7})
        again = await caller.reply("execution.update", payload={"n": 7}, **update)
        assert again.value == reply.value
        nobody = await caller.reply("execution.update", execution_id="x", name="other", wait_seconds=0.05)
        assert (nobody.status, nobody.value.taken) == (202, False)

    run(open_caller, test)


def test_an_activity_is_done_by_the_caller(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await start(caller, "double", "x", input={"number": 1}, mode="host_mediated")
        wrong = await caller.refusal("execution.submit_activity", execution_id="x", node_id="done", ok=True)
        assert wrong.code == "ACTIVITY_SUBMIT_NODE_MISMATCH"
        old = await caller.refusal("execution.submit_activity", execution_id="x", node_id="twice", ok=True, attempt=7)
        assert old.code == "ACTIVITY_SUBMIT_NOT_AWAITING"
        taken = await caller.call("execution.lease_activity", execution_id="x", node_id="twice", seconds=60)
        assert (taken["leased_to"], taken["arguments"]) == (os_user().principal_id, {"number": 1})
        other = await caller.new_caller("execution:write")
        busy = await other.refusal("execution.lease_activity", execution_id="x", node_id="twice", seconds=60)
        assert busy.code == "ACTIVITY_LEASED"
        done = await caller.call("execution.submit_activity", execution_id="x", node_id="twice", ok=True, result=2)
        assert done["status"] == "completed"

    run(open_caller, test)


def test_a_failed_activity_fails_its_execution(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await start(caller, "double", "x", input={"number": 1}, mode="host_mediated")
        await caller.call(
            "execution.submit_activity", execution_id="x", node_id="twice", ok=False, error="no", code="NO"
        )
        view = await ended(caller, "x")
        assert (view["error"]["code"], view["error"]["message"]) == ("NO", "no")

    run(open_caller, test)


def test_an_activity_in_doubt_is_tried_again_by_decision(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await start(caller, "double", "x", input={"number": 1}, mode="host_mediated")
        early = await caller.refusal("execution.retry", execution_id="x", node_id="twice")
        assert early.code == "ACTIVITY_RETRY_NOT_ALLOWED"
        unknown = inputs.ReportOutcomeUnknown(at=caller.gate.services.clock.now_ms(), node_id="twice")
        await caller.penstock.host.send("x", unknown)
        view = await caller.call("execution.status", execution_id="x")
        assert view["status"] == "waiting_decision"
        assert view["waiting_for"]["activities"][0]["outcome_unknown"] is True
        retried = await caller.call("execution.retry", execution_id="x", node_id="twice")
        assert retried["status"] == "waiting_activity"

    run(open_caller, test)


def test_a_fork_goes_on_from_a_record(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await start(caller, "ask", "x", labels={"team": "red"})
        asked = (await status(caller, "x", "waiting_input"))["sequence"]
        await caller.call("execution.answer", execution_id="x", answer={"ok": False})
        await ended(caller, "x")
        reply = await caller.reply("execution.fork", execution_id="x", at_sequence=asked, new_execution_id="y")
        assert (reply.location, reply.value.status) == ("/executions/y", "waiting_input")
        again = await caller.call("execution.fork", execution_id="x", at_sequence=asked, new_execution_id="y")
        assert again["execution_id"] == "y"
        taken = await caller.refusal("execution.fork", execution_id="x", at_sequence=1, new_execution_id="y")
        assert taken.code == "EXECUTION_ID_TAKEN"
        beyond = await caller.refusal("execution.fork", execution_id="x", at_sequence=999)
        assert beyond.code == "FORK_POINT_INVALID"
        await caller.call("execution.answer", execution_id="y", answer={"ok": True})
        view = await ended(caller, "y")
        assert (view["output"], view["forked_from"], view["labels"]) == ({"ok": True}, "x", {"team": "red"})

    run(open_caller, test)


def test_only_what_has_ended_is_deleted_and_its_children_go_with_it(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await start(caller, "parent", "p")
        await status(caller, "p:sub:child", "waiting_input")
        assert (await caller.refusal("execution.delete", execution_id="p")).code == "EXECUTION_NOT_ENDED"
        await caller.call("execution.answer", execution_id="p:sub:child", answer={"ok": True})
        await ended(caller, "p")
        assert await caller.call("execution.delete", execution_id="p") == {"id": "p", "deleted": True}
        assert (await caller.call("execution.list"))["items"] == []

    run(open_caller, test)


def test_a_run_in_another_tenant_is_reached_by_emit_only_within_it(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        acme = await caller.new_caller("*", tenant="acme")
        emit = workflow(
            "tell",
            {"id": "say", "type": "emit", "run": "${ .input.run }", "signal": "go", "payload": 1},
            {"id": "done", "type": "end"},
        )
        for document in (WAIT, ASK, emit):
            await acme.call("workflow.import", workflows=[document])
        await start(acme, "wait", "theirs")
        await start(caller, "wait", "ours")
        await start(acme, "tell", "a", input={"run": "theirs"})
        await start(acme, "tell", "b", input={"run": "ours"})
        told = await acme.call("workflow.execute", workflow_id="tell", input={"run": "theirs"}, sync=True)
        assert told["status"] == "completed"
        refused = await acme.call("workflow.execute", workflow_id="tell", input={"run": "ours"}, sync=True)
        assert refused["status"] == "failed"
        assert (await caller.call("execution.status", execution_id="ours"))["status"] == "waiting_signal"

    run(open_caller, test)


def test_a_failed_execution_is_tried_again_as_a_new_one(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        missing: dict[str, Any] = {"id": "twice", "type": "step", "handler": "nobody_has_it", "with": {}}
        await caller.call("workflow.create", document=workflow("sure", missing, {"id": "done", "type": "end"}))
        await start(caller, "sure", "x")
        assert (await ended(caller, "x"))["status"] == "failed"
        may_not_start = await caller.new_caller("execution:*", "workflow:read")
        refused = await may_not_start.refusal("execution.retry", execution_id="x")
        assert (refused.code, refused.details["scope"]) == ("SCOPE_REQUIRED", "workflow:run")
        again = [
            await caller.reply("execution.retry", execution_id="x", idempotency_key="once", new_execution_id="y")
            for _ in range(2)
        ]
        assert [msgspec.to_builtins(reply.value)["execution_id"] for reply in again] == ["y", "y"]
        forked = await ended(caller, "y")
        assert (forked["forked_from"], forked["status"]) == ("x", "failed")
        assert (await caller.call("execution.status", execution_id="x"))["status"] == "failed"
        await start(caller, "ask", "z")
        assert (await caller.refusal("execution.retry", execution_id="z")).code == "RETRY_NOT_ALLOWED"

    run(open_caller, test)


def test_a_history_can_be_waited_for_record_by_record(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await start(caller, "ask", "x")
        page = await caller.call("execution.history", execution_id="x", limit=500)
        assert (page["next_cursor"], page["ended"]) == (None, False)
        last = page["items"][-1]["seq"]
        nothing = await caller.call("execution.history", execution_id="x", after=last, wait_seconds=0.01)
        assert (nothing["items"], nothing["ended"]) == ([], False)
        waiting = asyncio.create_task(
            caller.call("execution.history", execution_id="x", after=last, wait_seconds=240, limit=1)
        )
        await asyncio.sleep(0)
        await caller.call("execution.answer", execution_id="x", answer={"ok": True}, note="on Ada's word")
        came = await waiting
        assert [item["name"] for item in came["items"]] == ["ResumeInterrupt"]
        assert came["items"][0]["payload"]["note"] == "on Ada's word"
        assert came["items"][0]["payload"]["answeredBy"] == os_user().principal_id
        await ended(caller, "x")
        rest = await caller.call("execution.history", execution_id="x", after=last, limit=500, wait_seconds=240)
        assert rest["ended"] is True

    run(open_caller, test)
