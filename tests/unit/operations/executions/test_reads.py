"""Starting executions and looking at them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from penstock.definitions.shapes import document as fields_document
from penstock.operations.catalogue.capability import Reply
from penstock.operations.gate.context import Context
from penstock.operations.runs.fields import RUN_STATUSES
from tests.unit.operations.conftest import Caller, OpenGate
from tests.unit.operations.documents import ASK, DOUBLE_STEP, PARENT, workflow
from tests.unit.operations.running import ended, read_stream, run, status


def test_the_statuses_to_filter_by_are_those_that_executions_have() -> None:
    assert sorted(RUN_STATUSES) == sorted(fields_document.RUN_STATUSES)


def test_a_start_is_accepted_with_a_handle_and_its_place(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        reply = await caller.reply("workflow.execute", workflow_id="double", input={"number": 4})
        handle = reply.value
        assert (reply.status, reply.location) == (202, f"/executions/{handle.execution_id}")
        assert handle.url == f"/api/v0/executions/{handle.execution_id}"
        view = await ended(caller, handle.execution_id)
        assert (view["status"], view["output"], view["error"]) == ("completed", 8, None)
        assert view["input"] == {"number": 4, "unit": "m"}
        assert (view["workflow_id"], view["definition_hash"]) == ("double", handle.definition_hash)
        assert [(node["node_id"], node["status"], node["attempts"]) for node in view["nodes"]] == [
            ("twice", "completed", 1),
            ("done", "completed", 0),
        ]

    run(open_caller, test)


def test_a_call_that_waits_answers_with_the_finished_execution(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        reply = await caller.reply("workflow.execute", workflow_id="double", input={"number": 4}, sync=True)
        assert (reply.status, reply.value.status, reply.value.output) == (200, "completed", 8)
        preferred = await caller.reply("workflow.execute", workflow_id="double", input={"number": 5}, wait_seconds=240)
        assert (preferred.status, preferred.value.output) == (200, 10)

    run(open_caller, test)


def test_a_call_that_waits_hands_back_the_handle_when_its_time_is_up(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        reply = await caller.reply("workflow.execute", workflow_id="ask", sync=True, wait_seconds=10_000)
        assert (reply.status, reply.value.status) == (202, "waiting_input")

    run(open_caller, test, sync_wait_max_seconds=0.05)


def test_an_input_that_does_not_fit_starts_nothing(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        error = await caller.refusal("workflow.execute", workflow_id="double", input={"number": "four"})
        assert error.code == "INPUT_INVALID"
        assert [item["pointer"] for item in error.details["errors"]] == ["/input/number"]  # type: ignore[union-attr,index,call-overload]
        assert (await caller.call("execution.list"))["items"] == []
        assert (await caller.refusal("workflow.execute", workflow_id="nothing")).code == "WORKFLOW_NOT_FOUND"
        bad = await caller.refusal("workflow.execute", workflow_id="ask", timeout="soon")
        assert bad.code == "DURATION_INVALID"
        reserved = await caller.refusal("workflow.execute", workflow_id="ask", labels={"penstock.chain": "x"})
        assert reserved.code == "LABEL_RESERVED"

    run(open_caller, test)


def test_the_same_id_and_input_are_the_same_execution_and_another_input_is_refused(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        start: dict[str, Any] = {"workflow_id": "double", "execution_id": "order-1"}
        first = await caller.call("workflow.execute", input={"number": 1}, **start)
        again = await caller.call("workflow.execute", input={"number": 1, "unit": "m"}, **start)
        assert first["execution_id"] == again["execution_id"] == "order-1"
        assert (await caller.refusal("workflow.execute", input={"number": 2}, **start)).code == "EXECUTION_ID_TAKEN"
        other = await caller.refusal("workflow.execute", workflow_id="ask", execution_id="order-1")
        assert other.code == "EXECUTION_ID_TAKEN"
        for chosen in ("a~1", "a:b", "-a", "", "a" * 129):
            refused = await caller.refusal("workflow.execute", workflow_id="ask", execution_id=chosen)
            assert refused.code == "INVALID_ARGUMENTS"

    run(open_caller, test)


def test_a_call_that_is_repeated_after_a_crash_finds_the_run_it_had_started(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        execute = caller.gate.catalogue.find("workflow.execute")

        async def dies_before_it_answers(context: Context, given: Any) -> Reply[Any]:
            await execute.handler(context, given)
            raise RuntimeError("the process is gone")

        caller.gate.catalogue.remove("workflow.execute")
        caller.gate.catalogue.add(replace(execute, handler=dies_before_it_answers))
        call: dict[str, Any] = {"workflow_id": "double", "input": {"number": 3}}
        first = await caller.outcome("workflow.execute", idempotency_key="k", **call)
        assert "INTERNAL_ERROR" in str(first)
        caller.gate.catalogue.remove("workflow.execute")
        caller.gate.catalogue.add(execute)
        # The answer was stored with the run, and the run began when the answer says that it did.
        again = await caller.call("workflow.execute", idempotency_key="k", **call)
        items = (await caller.call("execution.list"))["items"]
        assert [item["execution_id"] for item in items] == [again["execution_id"]]

    run(open_caller, test)


def test_a_repeated_key_gives_the_first_answer(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        call: dict[str, Any] = {"workflow_id": "double", "input": {"number": 3}, "sync": True}
        first = await caller.reply("workflow.execute", idempotency_key="k", **call)
        again = await caller.reply("workflow.execute", idempotency_key="k", **call)
        assert again.value["execution_id"] == first.value.execution_id
        assert (again.status, again.location) == (first.status, first.location)
        other = await caller.outcome("workflow.execute", idempotency_key="k", workflow_id="ask")
        assert "IDEMPOTENCY_KEY_REUSED" in str(other)

    run(open_caller, test)


def test_executions_are_found_by_status_workflow_label_parent_and_page(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        for number in range(3):
            labels = {"team": "red" if number else "blue"}
            await caller.call("workflow.execute", workflow_id="ask", execution_id=f"a{number}", labels=labels)
        await caller.call("workflow.execute", workflow_id="parent", execution_id="p")
        await status(caller, "p:sub:child", "waiting_input")

        async def ids(**filters: Any) -> list[str]:
            found = await caller.call("execution.list", **filters)
            return [item["execution_id"] for item in found["items"]]

        assert await ids(status=["waiting_input"], label="team=red") == ["a2", "a1"]
        assert await ids(status=["waiting_child", "completed"]) == ["p"]
        assert await ids(parent_id="p") == ["p:sub:child"]
        assert await ids(workflow_id="parent") == ["p"]
        who = (await caller.call("execution.status", execution_id="p"))["started_by"]["principal"]
        assert await ids(started_by=who) == ["p:sub:child", "p", "a2", "a1", "a0"]
        assert await ids(started_by=who, workflow_id="parent") == ["p"]
        assert await ids(started_by="key:nobody") == []
        assert await ids(created_before="2001-01-01T00:00:00Z") == []
        page = await caller.call("execution.list", limit=4)
        rest = await caller.call("execution.list", limit=4, cursor=page["next_cursor"])
        assert (len(page["items"]), len(rest["items"]), rest["next_cursor"]) == (4, 1, None)
        of_one = await caller.call("workflow.executions", workflow_id="ask", status=["waiting_input"], limit=2)
        assert len(of_one["items"]) == 2
        assert (await caller.refusal("execution.list", cursor="x")).code == "INVALID_LIST_CURSOR"
        assert (await caller.refusal("execution.list", created_after="yesterday")).code == "INVALID_ARGUMENTS"

    run(open_caller, test)


def test_the_view_says_what_an_execution_waits_for(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await caller.call("workflow.execute", workflow_id="ask", execution_id="q")
        view = await status(caller, "q", "waiting_input")
        (question,) = view["waiting_for"]["questions"]
        assert (question["node_id"], question["visit"], question["prompt"]) == ("question", 1, "May I?")
        assert question["answer_schema"]["required"] == ["ok"]
        assert question["expires_at"] is not None
        assert [timer["kind"] for timer in view["waiting_for"]["timers"]] == ["timeout"]
        await caller.call("workflow.execute", workflow_id="wait", execution_id="w")
        assert (await status(caller, "w", "waiting_signal"))["waiting_for"]["signals"][0]["name"] == "go"
        await caller.call("workflow.execute", workflow_id="parent", execution_id="p")
        await status(caller, "p:sub:child", "waiting_input")
        parent = await status(caller, "p", "waiting_child")
        assert [child["execution_id"] for child in parent["waiting_for"]["children"]] == ["p:sub:child"]
        child = await caller.call("execution.status", execution_id="p:sub:child")
        assert child["parent_id"] == "p"
        await caller.call(
            "workflow.execute", workflow_id="double", execution_id="h", input={"number": 1}, mode="host_mediated"
        )
        held = await status(caller, "h", "waiting_activity")
        (activity,) = held["waiting_for"]["activities"]
        assert (activity["node_id"], activity["done_by"], activity["arguments"]) == ("twice", "caller", {"number": 1})

    run(open_caller, test)


def test_a_failed_execution_says_where_and_why(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        document = workflow(
            "broken",
            {"id": "look", "type": "switch", "cases": [{"when": ".input.ok", "next": "done"}], "default": "stop"},
            {"id": "stop", "type": "fail", "code": "NO_STOCK", "message": "sold out"},
            {"id": "done", "type": "end"},
        )
        await caller.call("workflow.create", document=document)
        view = await caller.call("workflow.execute", workflow_id="broken", sync=True)
        assert view["status"] == "failed"
        assert (view["error"]["code"], view["error"]["node_id"]) == ("NO_STOCK", "stop")
        assert [(node["status"], node["error_code"]) for node in view["nodes"]] == [
            ("completed", None),
            ("failed", "NO_STOCK"),
            ("pending", None),
        ]

    run(open_caller, test)


def test_the_history_is_read_page_by_page(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await caller.call("workflow.execute", workflow_id="double", execution_id="d", input={"number": 1}, sync=True)
        first = await caller.call("execution.history", execution_id="d", limit=3)
        assert [item["seq"] for item in first["items"]] == [1, 2, 3]
        assert first["items"][0]["name"] == "ExecutionStarted"
        rest = await caller.call("execution.history", execution_id="d", cursor=first["next_cursor"])
        assert (rest["items"][0]["seq"], rest["next_cursor"]) == (4, None)
        later = await caller.call("execution.history", execution_id="d", after=4, limit=1)
        assert [item["seq"] for item in later["items"]] == [5]
        assert (await caller.refusal("execution.history", execution_id="d", cursor="x")).code == "INVALID_LIST_CURSOR"

    run(open_caller, test)


def test_an_expression_is_evaluated_where_the_execution_stands(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await caller.call("workflow.execute", workflow_id="double", execution_id="d", input={"number": 2}, sync=True)
        assert await caller.call("execution.query", execution_id="d", expression=".twice + 1") == {"value": 5}
        assert (await caller.refusal("execution.query", execution_id="d", expression="(")).code == "JQ_INVALID"
        assert (await caller.refusal("execution.query", execution_id="d", expression="error")).code == "JQ_FAILED"

    run(open_caller, test)


def test_nobody_sees_the_executions_of_another_tenant(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        acme = await caller.new_caller("*", tenant="acme")
        await acme.call("workflow.create", document=ASK)
        await acme.call("workflow.create", document=PARENT)
        await caller.call("workflow.execute", workflow_id="ask", execution_id="x", labels={"of": "us"})
        theirs = await acme.call("workflow.execute", workflow_id="ask", execution_id="x", labels={"of": "them"})
        made = await acme.call("workflow.execute", workflow_id="parent")
        assert theirs["execution_id"] == "x"
        for one, owner in ((caller, "us"), (acme, "them")):
            assert (await one.call("execution.status", execution_id="x"))["labels"] == {"of": owner}
        stored = f"acme~.{made['execution_id']}"
        child = await status(acme_view(caller, acme), f"{stored}:sub:child", "waiting_input")
        assert child["parent_id"] == made["execution_id"]
        for name in (made["execution_id"], stored, child["execution_id"], "acme~.x"):
            assert (await caller.refusal("execution.status", execution_id=name)).code == "EXECUTION_NOT_FOUND"
            assert (await caller.refusal("execution.cancel", execution_id=name)).code == "EXECUTION_NOT_FOUND"
        ours = await caller.call("execution.list")
        assert [item["labels"] for item in ours["items"]] == [{"of": "us"}]
        answered = await acme.call("execution.answer", execution_id=child["execution_id"], answer={"ok": True})
        assert answered["execution_id"] == child["execution_id"]

    run(open_caller, test)


def acme_view(caller: Caller, acme: Caller) -> Caller:
    return Caller(acme.gate, acme.who, caller.penstock)


def test_an_execution_that_continues_as_a_new_one_is_followed_to_its_end(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        document = workflow(
            "chain",
            {"id": "twice", "type": "step", "handler": DOUBLE_STEP, "with": {"number": "${ .input.n }"}},
            {"id": "look", "type": "switch", "cases": [{"when": ".twice > 10", "next": "done"}], "default": "again"},
            {"id": "again", "type": "continue_as_new", "input": {"n": "${ .twice }"}},
            {"id": "done", "type": "end", "output": "${ .twice }"},
        )
        await caller.call("workflow.create", document=document)
        start: dict[str, Any] = {"workflow_id": "chain", "execution_id": "c", "input": {"n": 2}}
        view = await caller.call("workflow.execute", sync=True, **start)
        assert (view["execution_id"], view["output"], view["continued_from"]) == ("c~3", 16, "c~2")
        first = await caller.call("execution.status", execution_id="c")
        assert (first["status"], first["continued_as"], first["labels"]) == ("completed", "c~2", {})
        events = await read_stream(caller, execution_id="c", events="output,complete")
        assert [(event.event, event.data["continued_as"]) for event in events] == [("complete", "c~2")]  # type: ignore[index,call-overload]

    run(open_caller, test)


def test_an_execution_that_is_looked_at_again_and_again_is_seen_as_it_is(open_caller: OpenGate) -> None:
    async def body() -> None:
        async with open_caller() as caller, open_caller() as elsewhere:
            await caller.call("workflow.create", document=ASK)
            run = (await caller.call("workflow.execute", workflow_id=ASK["name"]))["execution_id"]

            async def seen(*, by: Caller) -> Any:
                found = await by.call("execution.status", execution_id=run)
                return found["status"], found["sequence"]

            await caller.call("execution.wait", execution_id=run, wait_seconds=240)
            before = await seen(by=caller)
            for _ in range(3):
                assert await seen(by=caller) == await seen(by=elsewhere) == before
            await elsewhere.call("execution.pause", execution_id=run)
            paused = await seen(by=caller)
            assert paused == await seen(by=elsewhere) != before
            await caller.call("execution.resume", execution_id=run)
            assert await seen(by=caller) != paused
            await elsewhere.call("execution.cancel", execution_id=run)
            assert (await seen(by=caller))[0] in ("cancelled", "cancelling")
            stranger = await caller.new_caller("*", tenant="other")
            assert (await stranger.refusal("execution.status", execution_id=run)).code == "EXECUTION_NOT_FOUND"
            await caller.call("execution.wait", execution_id=run, wait_seconds=240)
            await caller.call("execution.delete", execution_id=run)
            for by in (caller, elsewhere):
                assert (await by.refusal("execution.status", execution_id=run)).code == "EXECUTION_NOT_FOUND"

    asyncio.run(body())
