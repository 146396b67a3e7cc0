"""The stream of an execution: everything once, in order, from wherever a reader was."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from penstock.app.penstock import Penstock
from penstock.base import limits
from penstock.base.errors import LimitExceeded
from penstock.engine.records import Record
from penstock.operations.catalogue.capability import StreamEvent
from penstock.operations.gate.context import Credentials, Request, Surface
from penstock.operations.gate.pipeline import AnsweredCall
from penstock.runtime.activities.performing import ActivityCall
from tests.unit.operations.conftest import Caller, OpenGate
from tests.unit.operations.documents import workflow
from tests.unit.operations.running import read_stream, run, status, streaming
from tests.waiting import SECONDS_MAX, turns, until

Told = tuple[str | None, Any]


def told(events: list[StreamEvent]) -> list[Told]:
    """The type of each event, and what matters most in it."""
    names = {"status": "status", "node": "phase", "output": "output", "error": "code", "complete": "status"}
    return [(event.event, event.data[names[event.event]]) for event in events if event.event in names]  # type: ignore[index,call-overload]


async def finished(caller: Caller, name: str = "double", **more: Any) -> str:
    view = await caller.call("workflow.execute", workflow_id=name, sync=True, **more)
    found: str = view["execution_id"]
    return found


def test_a_stream_tells_what_happened_and_ends_with_complete(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        events = await read_stream(caller, execution_id=await finished(caller, input={"number": 2}))
        assert told(events) == [
            ("status", "running"),
            ("node", "scheduled"),
            ("node", "started"),
            ("status", "waiting_activity"),
            ("node", "attempt_completed"),
            ("node", "completed"),
            ("node", "scheduled"),
            ("node", "completed"),
            ("status", "completed"),
            ("output", 4),
            ("complete", "completed"),
        ]
        records = [int((event.id or "").partition(".")[0]) for event in events]
        assert records == sorted(records)
        assert len({event.id for event in events}) == len(events)
        # Of several events of one record the last has its number, the others their place besides.
        last = (events[-1].id or "").partition(".")[0]
        assert [event.id for event in events[-3:]] == [f"{last}.1", f"{last}.2", last]

    run(open_caller, test)


def test_a_failed_execution_ends_with_an_error_and_complete(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        document = workflow(
            "broken",
            {"id": "look", "type": "switch", "cases": [{"when": ".input.ok", "next": "done"}], "default": "stop"},
            {"id": "stop", "type": "fail", "code": "NO_STOCK", "message": "sold out"},
            {"id": "done", "type": "end"},
        )
        await caller.call("workflow.create", document=document)
        events = await read_stream(caller, execution_id=await finished(caller, "broken"))
        assert told(events)[-3:] == [("status", "failed"), ("error", "NO_STOCK"), ("complete", "failed")]

    run(open_caller, test)


def test_a_reader_that_was_cut_off_anywhere_gets_the_rest_and_nothing_twice(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        execution_id = await finished(caller, input={"number": 2})
        whole = await read_stream(caller, execution_id=execution_id)
        assert len({event.id for event in whole}) == len(whole)
        for number, event in enumerate(whole):
            rest = await read_stream(caller, execution_id=execution_id, last_event_id=event.id, after=1)
            assert rest == whole[number + 1 :]
            if "." not in (event.id or ""):
                assert await read_stream(caller, execution_id=execution_id, after=int(event.id or 0)) == rest

    run(open_caller, test)


def test_only_the_events_that_are_wanted_come(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        execution_id = await finished(caller, input={"number": 2})
        events = await read_stream(caller, execution_id=execution_id, events="status, complete")
        assert told(events) == [
            ("status", "running"),
            ("status", "waiting_activity"),
            ("status", "completed"),
            ("complete", "completed"),
        ]
        first = await read_stream(caller, execution_id=execution_id, events="status", last_event_id=events[1].id)
        assert told(first) == [("status", "completed")]
        assert first[0].id == events[-1].id
        for unknown in ("status,nonsense", "", ","):
            error = await caller.refusal("execution.stream", execution_id=execution_id, events=unknown)
            assert error.code == "STREAM_EVENTS_UNKNOWN"
        for position in ("-1", "x", "²", "99999", "1.", "1.0", "1.x", "99999.1"):
            error = await caller.refusal("execution.stream", execution_id=execution_id, last_event_id=position)
            assert error.code == "STREAM_POSITION_INVALID"

    run(open_caller, test)


def test_a_stream_goes_on_while_the_execution_does(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await caller.call("workflow.execute", workflow_id="ask", execution_id="x")
        await status(caller, "x", "waiting_input")
        async with streaming(caller, execution_id="x", events="status,output,complete") as events:
            assert told([await anext(events), await anext(events)]) == [
                ("status", "running"),
                ("status", "waiting_input"),
            ]
            waiting = asyncio.ensure_future(anext(events))
            await turns()
            assert not waiting.done()
            await caller.call("execution.answer", execution_id="x", answer={"ok": True})
            rest = [await waiting, *[event async for event in events]]
            assert told(rest) == [("status", "completed"), ("output", {"ok": True}), ("complete", "completed")]

    run(open_caller, test)


def test_a_question_is_told_with_its_schema(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await caller.call("workflow.execute", workflow_id="ask", execution_id="x")
        data: Any = {}
        async with streaming(caller, execution_id="x", events="node") as events:
            while data.get("phase") != "waiting_input":
                data = (await anext(events)).data
        assert (data["prompt"], data["interrupt_id"]) == ("May I?", "question:1")
        assert data["answer_schema"]["required"] == ["ok"]

    run(open_caller, test)


def test_an_idle_stream_gives_signs_of_life(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await caller.call("workflow.execute", workflow_id="ask", execution_id="x")
        seen = (await status(caller, "x", "waiting_input"))["sequence"]
        async with streaming(caller, execution_id="x", after=seen) as events:
            assert [await anext(events) for _ in range(3)] == [StreamEvent(event=None)] * 3
            # What was forgotten while nothing happened is read again when something does.
            await caller.call("execution.answer", execution_id="x", answer={"ok": True})
            rest = [event async for event in events if event.event is not None]
        assert told(rest)[-3:] == [("status", "completed"), ("output", {"ok": True}), ("complete", "completed")]

    run(open_caller, test, stream_heartbeat_seconds=0.02)


def test_a_stream_goes_on_after_a_restart_without_loss_or_repetition(open_caller: OpenGate) -> None:
    async def body() -> None:
        before: list[StreamEvent] = []
        async with asyncio.timeout(SECONDS_MAX):
            async with open_caller() as caller:
                await caller.call("workflow.create", document=ask())
                await caller.call("workflow.execute", workflow_id="ask", execution_id="x")
                await status(caller, "x", "waiting_input")
                async with streaming(caller, execution_id="x") as events:
                    async for event in events:
                        before.append(event)
                        if told([event]) == [("status", "waiting_input")]:
                            break
            async with open_caller() as caller:
                last = before[-1].id
                async with streaming(caller, execution_id="x", last_event_id=last) as events:
                    await caller.call("execution.answer", execution_id="x", answer={"ok": True})
                    after = [event async for event in events]
                assert before + after == await read_stream(caller, execution_id="x")

    def ask() -> dict[str, Any]:
        return workflow(
            "ask",
            {"id": "question", "type": "interrupt", "message": "May I?", "answer": {"type": "object"}},
            {"id": "done", "type": "end", "output": "${ .question }"},
        )

    asyncio.run(body())


def test_what_another_process_does_to_an_execution_is_told_too(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await caller.call("workflow.execute", workflow_id="ask", execution_id="x")
        seen = (await status(caller, "x", "waiting_input"))["sequence"]
        path = caller.penstock.store.database.path  # type: ignore[attr-defined]
        async with (
            streaming(caller, execution_id="x", after=seen, events="status,complete") as events,
            Penstock.open(path, perform=False) as other,
        ):
            await other.run("x").answer({"ok": True})
            assert told([event async for event in events]) == [("status", "completed"), ("complete", "completed")]

    run(open_caller, test)


def test_a_stream_ends_when_its_key_is_revoked(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        reader = await caller.new_caller("execution:read")
        await caller.call("workflow.execute", workflow_id="ask", execution_id="x")
        seen = (await status(caller, "x", "waiting_input"))["sequence"]
        key_id = (await caller.call("key.list"))["items"][0]["id"]
        async with streaming(reader, execution_id="x", after=seen) as events:
            waiting = asyncio.ensure_future(anext(events))
            await turns()
            await caller.call("key.revoke", key_id=key_id)
            last = await waiting
            assert (last.event, last.id) == ("closed", None)
            assert last.data["code"] == "KEY_REVOKED"  # type: ignore[index,call-overload]
            assert [event async for event in events] == []
        assert (await reader.refusal("execution.stream", execution_id="x")).code == "KEY_REVOKED"

    run(open_caller, test)


def test_a_stream_of_an_execution_that_is_deleted_ends(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await caller.call("workflow.execute", workflow_id="wait", execution_id="x")
        seen = (await status(caller, "x", "waiting_signal"))["sequence"]
        async with streaming(caller, execution_id="x", after=seen, events="output") as events:
            waiting = asyncio.ensure_future(anext(events, None))
            await turns()
            await caller.call("execution.cancel", execution_id="x")
            await caller.call("execution.delete", execution_id="x")
            last = await waiting
            # Whichever the stream saw first: the end, or that there is nothing any more.
            assert last is None or last.event == "closed"

    run(open_caller, test)


def test_a_stream_whose_execution_is_deleted_between_two_reads_ends(
    open_caller: OpenGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(caller: Caller) -> None:
        await caller.call("workflow.execute", workflow_id="wait", execution_id="x")
        seen = (await status(caller, "x", "waiting_signal"))["sequence"]
        services = caller.gate.services
        host, read, idle_reads = type(services.host), services.host.history, 0

        async def read_then_delete(_: object, run_id: str, *, after_seq: int = 0, limit: int = 0) -> tuple[Record, ...]:
            """Delete the run after its newest records were read, and before its older ones are."""
            nonlocal idle_reads
            records = await read(run_id, after_seq=after_seq, limit=limit)
            if after_seq == seen and records:
                await caller.call("execution.delete", execution_id="x")
            elif after_seq == seen:
                idle_reads += 1
            return records

        monkeypatch.setattr(host, "history", read_then_delete)
        async with streaming(caller, execution_id="x", after=seen, events="output") as events:
            waiting = asyncio.ensure_future(anext(events, None))
            await until(lambda: idle_reads >= 1)
            services.open_streams.wake()  # with nothing new: the stream no longer keeps the run as it was
            await until(lambda: idle_reads >= 2)
            await caller.call("execution.cancel", execution_id="x")
            last = await waiting
            assert last is not None
            assert last.event == "closed"
            assert await services.store.row("x") is None

    run(open_caller, test)


def test_the_number_of_streams_is_limited_and_a_closed_one_makes_room(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await caller.call("workflow.execute", workflow_id="ask", execution_id="x")
        other = await caller.new_caller("execution:read")
        streams = caller.gate.services.open_streams
        async with streaming(caller, execution_id="x"), streaming(caller, execution_id="x"):
            full = await caller.refusal("execution.stream", execution_id="x")
            assert isinstance(full, LimitExceeded)
            assert full.code == "STREAMS_LIMITED"
            async with streaming(other, execution_id="x"):
                third = await caller.new_caller("execution:read")
                assert (await third.refusal("execution.stream", execution_id="x")).code == "STREAMS_LIMITED"
        assert streams.count == 0
        await caller.stream("execution.stream", execution_id="x")
        # Nobody looked at it, and nobody has it any more.
        assert streams.count == 0
        events = await read_stream(caller, execution_id=await finished(caller, input={"number": 1}))
        assert (events[-1].event, streams.count) == ("complete", 0)

    run(open_caller, test, streams_per_key=2, streams_max=3)


@pytest.mark.parametrize("surface", ["rest", "mcp"])
def test_progress_is_told_live_without_an_id_and_marked_if_a_model_began_it(
    open_caller: OpenGate, surface: Surface
) -> None:
    async def test(caller: Caller) -> None:
        arguments: dict[str, Any] = {
            "workflow_id": "double",
            "execution_id": "x",
            "input": {"number": 1},
            "mode": "host_mediated",
        }
        begun = await caller.gate.call(
            Request(
                operation="workflow.execute",
                arguments=arguments,
                principal=await caller.principal(),
                surface=surface,
                request_id="test",
            )
        )
        assert isinstance(begun, AnsweredCall)
        await status(caller, "x", "waiting_activity")
        (activity,) = await caller.penstock.run("x").activities()
        call = ActivityCall(run_id="x", workflow_name="double", activity=activity)
        async with streaming(caller, execution_id="x", events="progress,complete") as events:
            waiting = asyncio.ensure_future(anext(events))
            await turns()
            caller.penstock.host.progress.progress(call, 0.5, "half")
            event = await waiting
            data: Any = event.data
            assert (event.event, event.id) == ("progress", None)
            assert (data["execution_id"], data["node_id"], data["value"], data["message"]) == (
                "x",
                "twice",
                0.5,
                "half",
            )
            assert data.get("untrusted", False) is (surface == "mcp")

    run(open_caller, test)


@pytest.mark.parametrize("number", [300])
def test_idle_streams_share_one_look_at_the_store(
    open_caller: OpenGate, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(caller: Caller) -> None:
        await caller.call("workflow.execute", workflow_id="ask", execution_id="x")
        seen = (await status(caller, "x", "waiting_input"))["sequence"]
        looks: list[int] = []
        looked_often = asyncio.Event()
        positions = caller.penstock.store.positions

        async def counted(run_ids: Any) -> Any:
            looks.append(len(run_ids))
            if len(looks) == 10:
                looked_often.set()
            return await positions(run_ids)

        monkeypatch.setattr(caller.penstock.store, "positions", counted)
        streams = [await caller.stream("execution.stream", execution_id="x", after=seen) for _ in range(number)]
        waiting = [asyncio.ensure_future(anext(stream.events)) for stream in streams]
        began = asyncio.get_running_loop().time()
        await looked_often.wait()
        elapsed_seconds = asyncio.get_running_loop().time() - began
        assert not any(task.done() for task in waiting)
        assert set(looks) == {1}
        # If every stream looked for itself, ten looks would be over at once.
        assert elapsed_seconds >= 7 * limits.FOREIGN_CHANGE_POLL_SECONDS
        await caller.call("execution.answer", execution_id="x", answer={"ok": True})
        assert {event.event for event in await asyncio.gather(*waiting)} == {"node"}
        for stream in streams:
            await stream.events.aclose()  # type: ignore[attr-defined]

    run(open_caller, test)


def test_readers_who_catch_up_take_turns_and_hold_no_records_while_they_wait(
    open_caller: OpenGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(caller: Caller) -> None:
        execution_id = await finished(caller, input={"number": 2})
        reading, at_once = 0, 0
        history = caller.penstock.store.history

        async def counted(*args: Any, **kwargs: Any) -> Any:
            nonlocal reading, at_once
            reading += 1
            at_once = max(at_once, reading)
            try:
                return await history(*args, **kwargs)
            finally:
                reading -= 1

        monkeypatch.setattr(caller.penstock.store, "history", counted)
        streams = [read_stream(caller, execution_id=execution_id) for _ in range(20)]
        told_by_all = await asyncio.gather(*streams)
        assert all(told(events)[-1] == ("complete", "completed") for events in told_by_all)
        assert 0 < at_once <= limits.STREAM_READS_AT_ONCE

    run(open_caller, test)


@pytest.mark.parametrize("wanted", ["complete", "status,complete"])
def test_a_key_revoked_before_the_first_look_ends_the_stream_at_once(open_caller: OpenGate, wanted: str) -> None:
    async def test(caller: Caller) -> None:
        await caller.call("workflow.execute", workflow_id="ask", execution_id="one")
        made = await caller.call("key.create", name="reader", scopes=["execution:read"])
        reader = replace(caller, who=Credentials(bearer=made["secret"]))
        async with streaming(reader, execution_id="one", events=wanted) as events:
            # Let in, and not yet read: nobody can be told that the key is gone.
            await caller.call("key.revoke", key_id=made["key"]["id"])
            assert [event.data["code"] async for event in events] == ["KEY_REVOKED"]  # type: ignore[call-overload,index]

    run(open_caller, test)
