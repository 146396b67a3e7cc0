"""Pictures, test cases and dry runs of stored workflows."""

from __future__ import annotations

from typing import Any

from penstock.base import limits
from tests.unit.operations.conftest import Caller, OpenGate
from tests.unit.operations.running import run

CHILD: dict[str, Any] = {
    "penstock": "v1",
    "name": "twofold",
    "nodes": [{"id": "made", "type": "end", "output": "${ .input.number * 2 }"}],
}
DOCUMENT: dict[str, Any] = {
    "penstock": "v1",
    "name": "checked",
    "input": {"type": "object", "required": ["number"], "properties": {"number": {"type": "integer"}}},
    "nodes": [
        {
            "id": "large",
            "type": "switch",
            "cases": [{"when": ".input.number > 10", "next": "fetch"}],
            "default": "small",
        },
        {"id": "fetch", "type": "http", "url": "https://example.com", "next": "twice"},
        {"id": "twice", "type": "subworkflow", "workflow": "twofold", "input": {"number": "${ .fetch }"}},
        {"id": "done", "type": "end", "output": "${ .twice }"},
        {"id": "small", "type": "end", "output": "small"},
    ],
    "tests": [
        {"name": "small", "input": {"number": 1}, "expect": {"output": "small"}},
        {"name": "large", "input": {"number": 11}, "mock": {"fetch": 4}, "expect": {"output": 8}},
        {"name": "wrong", "input": {"number": 1}, "expect": {"output": "large"}},
        {"name": "later", "skip": True, "input": {"number": 1}, "expect": {"status": "completed"}},
    ],
}


def test_a_workflow_is_drawn_with_its_nodes_in_words_and_a_huge_one_only_in_words(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        for document in (CHILD, DOCUMENT):
            await caller.call("workflow.create", document=document)
        drawn = await caller.call("workflow.draw", workflow_id="checked")
        assert drawn["svg"].startswith("<svg")
        assert [node["id"] for node in drawn["nodes"]] == ["large", "fetch", "twice", "done", "small"]
        assert {route["target"] for route in drawn["nodes"][0]["routes"]} == {"fetch", "small"}
        many = limits.WORKFLOW_DRAWN_NODES_MAX + 1
        nodes = [{"id": f"n{number}", "type": "wait", "duration": "1s"} for number in range(many - 1)]
        nodes.append({"id": "done", "type": "end"})
        await caller.call("workflow.create", document={"penstock": "v1", "name": "huge", "nodes": nodes})
        huge = await caller.call("workflow.draw", workflow_id="huge")
        assert (huge["svg"], huge["nodes_total"], len(huge["nodes"])) == (None, many, many)
        some = await caller.call("workflow.draw", workflow_id="huge", nodes_from=100, limit=2)
        assert [node["id"] for node in some["nodes"]] == ["n100", "n101"]
        assert [route["target_position"] for node in some["nodes"] for route in node["routes"]] == [101, 102]
        assert (some["nodes_total"], some["nodes"]) == (many, huge["nodes"][100:102])
        behind = await caller.call("workflow.draw", workflow_id="huge", nodes_from=10**15)
        assert (behind["nodes_total"], behind["nodes"]) == (many, [])
        refused = await caller.refusal("workflow.draw", workflow_id="huge", limit=limits.WORKFLOW_LISTED_NODES_MAX + 1)
        assert refused.code == "INVALID_ARGUMENTS"

    run(open_caller, test)


def test_the_cases_of_a_workflow_are_run_and_differences_are_told(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        for document in (CHILD, DOCUMENT):
            await caller.call("workflow.create", document=document)
        report = await caller.call("workflow.test", workflow_id="checked")
        outcomes = {case["name"]: case["outcome"] for case in report["cases"]}
        assert outcomes == {"small": "passed", "large": "passed", "wrong": "failed", "later": "skipped"}
        assert report["passed"] is False
        difference = next(case for case in report["cases"] if case["name"] == "wrong")["differences"][0]
        assert (difference["expected"], difference["actual"]) == ("large", "small")
        one = await caller.call("workflow.test", workflow_id="checked", case="small")
        assert (one["passed"], len(one["cases"])) == (True, 1)
        assert (await caller.refusal("workflow.test", workflow_id="checked", case="no")).code == "TEST_CASE_NOT_FOUND"

    run(open_caller, test)


def test_a_dry_run_says_where_it_would_go_and_starts_nothing(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        for document in (CHILD, DOCUMENT):
            await caller.call("workflow.create", document=document)
        small = await caller.call("workflow.simulate", workflow_id="checked", input={"number": 1})
        assert (small["status"], small["path"], small["result"]) == ("completed", ["large", "small"], "small")
        large = {"workflow_id": "checked", "input": {"number": 11}}
        stopped = await caller.call("workflow.simulate", **large)
        assert stopped["path"] == ["large", "fetch"]
        assert stopped["waiting_for"]
        told = await caller.call("workflow.simulate", **large, mocks={"fetch": 3})
        assert (told["status"], told["result"]) == ("completed", 6)
        refused = await caller.call("workflow.simulate", workflow_id="checked", input={})
        assert (refused["status"], refused["path"]) == ("refused", [])
        assert (await caller.call("execution.list"))["items"] == []

    run(open_caller, test)
