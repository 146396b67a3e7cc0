"""Graphs themselves: created, listed, looked at and deleted, each in its tenant."""

from __future__ import annotations

import asyncio

from tests.fixtures.graph_data import SCHEMA
from tests.unit.operations.conftest import Caller, OpenGate
from tests.unit.operations.graphs.crm import stored, with_crm


def test_a_graph_is_created_once_and_shows_how_it_is_offered(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        found = await caller.call("graph.get", graph_id="crm")
        assert (found["queries"], found["allow_adhoc"], found["protected_branches"]) == (3, False, ["main"])
        assert (await caller.refusal("graph.create", id="crm", schema=SCHEMA)).code == "GRAPH_EXISTS"
        broken = await caller.refusal("graph.create", id="other", schema="node User { handle: Strin }")
        assert broken.code == "GRAPH_SCHEMA_INVALID"
        assert broken.details["findings"]
        assert [item["id"] for item in (await caller.call("graph.list"))["graphs"]] == ["crm"]
        health = await caller.call("graph.health", graph_id="crm")
        assert (health["status"], health["queries"]) == ("ok", 3)

    with_crm(open_caller, test, protected_branches=["main"])


def test_a_branch_is_protected_once_the_data_are_loaded(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        changed = await caller.call("graph.update", graph_id="crm", protected_branches=["main"], title="Customers")
        assert (changed["title"], changed["protected_branches"], changed["queries"]) == ("Customers", ["main"], 3)
        branches = (await caller.call("graph.branches_list", graph_id="crm"))["branches"]
        assert [item["protected"] for item in branches] == [True]

    with_crm(open_caller, test)


def test_a_deleted_graph_leaves_no_queries_for_its_successor(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await caller.call("graph.delete", graph_id="crm")
        assert (await caller.refusal("graph.get", graph_id="crm")).code == "GRAPH_NOT_FOUND"
        run = {"graph_id": "crm", "name": "tasks_of", "params": {"owner": "ada"}}
        assert (await caller.refusal("graph.query_run", **run)).code == "QUERY_NOT_FOUND"
        await caller.call("graph.create", id="crm", schema=SCHEMA)
        assert (await caller.call("graph.get", graph_id="crm"))["queries"] == 0

    with_crm(open_caller, test)


def test_a_call_with_an_idempotency_key_creates_one_graph_and_answers_twice(open_caller: OpenGate) -> None:
    async def body() -> None:
        async with open_caller() as caller:
            made = [await caller.reply("graph.create", idempotency_key="k", id="crm", schema=SCHEMA) for _ in range(2)]
            assert made[0].value.created_at == made[1].value["created_at"]
            records = (await caller.call("audit.list", operation="graph.create"))["items"]
            assert [record["subject"] for record in records] == ["crm", "crm"]

    asyncio.run(body())


def test_a_snapshot_names_the_version_to_read_again(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        before = (await caller.call("graph.snapshot", graph_id="crm"))["graph_commit_id"]
        await caller.call("graph.query_run", graph_id="crm", name="close_task", params={"slug": "t1"})
        asked = {"graph_id": "crm", "name": "tasks_of", "params": {"owner": "ada"}}
        now = await caller.call("graph.query_run", **asked)
        then = await caller.call("graph.query_run", **asked, snapshot=before)
        assert [row["state"] for row in now["rows"]] == ["done", "open"]
        assert [row["state"] for row in then["rows"]] == ["open", "open"]
        assert (then["target"], then["graph_commit_id"]) == ({"snapshot": before}, before)
        lost = await caller.refusal("graph.query_run", **asked, snapshot="c_nothing")
        assert lost.code == "COMMIT_NOT_FOUND"

    with_crm(open_caller, test)


def test_two_graphs_of_a_tenant_do_not_mix(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await stored(caller, "hr")
        await caller.call("graph.query_run", graph_id="hr", name="close_task", params={"slug": "t1"})
        asked = {"name": "tasks_of", "params": {"owner": "ada"}, "limit": 1}
        found = [await caller.call("graph.query_run", graph_id=graph, **asked) for graph in ("crm", "hr")]
        assert [answer["rows"][0]["state"] for answer in found] == ["open", "done"]
        assert [answer["more"] for answer in found] == [True, True]

    with_crm(open_caller, test)
