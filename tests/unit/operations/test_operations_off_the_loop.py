"""What callers send is compiled, checked and compared where nobody else waits for it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scenarios.loop_stalls import STALL_SECONDS_MAX, Stalls, in_tries, watched_loop
from tests.unit.operations.conftest import Caller, OpenGate
from tests.unit.operations.running import run, status


def held_up(stalls: Stalls) -> str:
    return f"the loop computed for {stalls.worst * 1000:.0f} ms at a stretch"


def many_nodes(version: str) -> dict[str, Any]:
    """A document of some hundred kilobytes, each node of which says something else in another version."""
    nodes = [
        {"id": f"n{number}", "type": "set_state", "set": {"word": f"{version} {number}", "more": "x" * 100}}
        for number in range(1_500)
    ]
    return {"penstock": "v1", "name": "long", "version": version, "nodes": [*nodes, {"id": "done", "type": "end"}]}


def test_documents_are_compared_off_the_event_loop(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await caller.call("workflow.create", document=many_nodes("1.0.0"))
        sent = many_nodes("2.0.0")
        async with watched_loop() as stalls:
            told = await caller.call("workflow.diff", workflow_id="long", document=sent)
        assert len(told["changes"]) >= 1_500
        assert told["same"] is False
        assert stalls.worst < STALL_SECONDS_MAX, held_up(stalls)

    run(open_caller, test)


def test_small_documents_and_large_ones_are_compared_alike(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        long = many_nodes("1.0.0")
        short = {**long, "name": "short", "nodes": long["nodes"][-2:]}
        for document in (long, short):
            await caller.call("workflow.create", document=document)
            *before, last, end = document["nodes"]
            changed = {**document, "nodes": [*before, {**last, "set": {"word": "other"}}, end]}
            told = await caller.call("workflow.diff", workflow_id=document["name"], document=changed)
            assert [change["subject"] for change in told["changes"]] == ["node"]
            assert told["changes"][0]["path"].startswith("/nodes/")

    run(open_caller, test)


def test_a_workflow_of_many_nodes_is_stored_started_and_shown_off_the_event_loop(open_caller: OpenGate) -> None:
    nodes = [{"id": f"n{number}", "type": "set_state", "set": {"word": "x"}} for number in range(9_998)]
    wait, end = {"id": "hear", "type": "wait", "signal": "go"}, {"id": "done", "type": "end"}
    document = {"penstock": "v1", "name": "wide", "nodes": [wait, *nodes, end]}

    async def test(caller: Caller) -> None:
        async def one_by_one() -> None:
            name = f"wide{len(stored)}"
            stored.append(name)
            async with watched_loop() as stalls:
                await caller.call("workflow.create", document={**document, "name": name})
                await caller.call("workflow.execute", workflow_id=name, execution_id=name)
                shown = await caller.call("execution.status", execution_id=name)
            assert len(shown["nodes"]) == 10_000
            stalls.check("storing, starting and showing it")

        stored: list[str] = []
        await in_tries(one_by_one)

    run(open_caller, test)


# Compiling these takes half a second of processor time.
_PATTERNS = {f"p{n}": {"type": "string", "pattern": rf"^[\p{{L}} ]{{1,{100 + n % 80}}}$"} for n in range(15)}


@pytest.mark.parametrize(
    ("operation", "rest", "member"),
    [
        ("schema.create", {"id": "slow"}, "schema"),
        ("tool.create", {"id": "slow", "kind": "step", "name": "s"}, "input_schema"),
    ],
)
def test_schemas_that_are_registered_are_compiled_off_the_event_loop(
    open_caller: OpenGate, operation: str, rest: dict[str, Any], member: str
) -> None:
    async def test(caller: Caller) -> None:
        async with watched_loop() as stalls:
            made = await caller.call(operation, **rest, **{member: {"type": "object", "properties": _PATTERNS}})
            wrong = {"type": "object", "properties": {**_PATTERNS, "last": {"type": "no such type"}}}
            refused = await caller.refusal(operation, **{**rest, "id": "wrong"}, **{member: wrong})
        assert made["id"] == "slow"
        assert refused.code == "SCHEMA_INVALID"
        errors: Any = (refused.details or {})["errors"]
        assert errors[0]["pointer"] == f"/{member}/properties/last/type"
        assert stalls.worst < STALL_SECONDS_MAX, held_up(stalls)

    run(open_caller, test)


def test_a_long_query_is_looked_over_off_the_event_loop(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await caller.call("workflow.execute", workflow_id="ask", execution_id="x")
        await status(caller, "x", "waiting_input")
        fine = "[" + "1, " * 4_000 + "2] | length"
        async with watched_loop() as stalls:
            told = await caller.call("execution.query", execution_id="x", expression=fine)
            refused = await caller.refusal("execution.query", execution_id="x", expression=f"{fine} | now")
        assert told["value"] == 4_001
        assert refused.code == "JQ_INVALID"
        assert "`now`" in refused.message
        assert stalls.worst < STALL_SECONDS_MAX, held_up(stalls)

    run(open_caller, test)
