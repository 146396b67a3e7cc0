"""Branches: work is done on one, compared, and merged; a protected branch changes only when somebody agrees."""

from __future__ import annotations

from typing import Any

from penstock.operations.gate.outcomes import AnsweredCall
from tests.unit.operations.conftest import Caller, OpenGate
from tests.unit.operations.graphs.crm import with_crm
from tests.unit.operations.running import ended


async def proposed(caller: Caller, branch: str = "work") -> None:
    await caller.call("graph.branches_create", graph_id="crm", name=branch)
    await caller.call("graph.query_run", graph_id="crm", name="close_task", params={"slug": "t1"}, branch=branch)


def test_what_changed_on_a_branch_is_compared_and_merged(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await proposed(caller)
        [change] = (await caller.call("graph.diff", graph_id="crm", source="work"))["changes"]
        assert (change["kind"], change["before"]["data"]["state"], change["after"]["data"]["state"]) == (
            "updated",
            "open",
            "done",
        )
        merged = await caller.call("graph.branches_merge", graph_id="crm", source="work", delete_branch=True)
        assert (merged["outcome"], merged["changes"], merged["branch_deleted"]) == ("fast_forward", 1, True)
        commits = (await caller.call("graph.commits_list", graph_id="crm", branch="main"))["commits"]
        assert commits[0]["kind"] == "merge"
        changes = await caller.call("graph.commits_changes", graph_id="crm", commit_id=commits[0]["commit_id"])
        assert [item["entity_id"] for item in changes["changes"]] == ["t1"]
        page = await caller.call("graph.changes_poll", graph_id="crm", after=commits[0]["parent_id"])
        assert [item["commit"]["kind"] for item in page["commits"]] == ["merge"]

    with_crm(open_caller, test)


def test_conflicts_are_all_listed_and_nothing_is_merged(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await caller.call("graph.branches_create", graph_id="crm", name="work")
        for branch, title in (("main", "Uno"), ("work", "Eins")):
            record = f'{{"type": "Task", "data": {{"slug": "t1", "title": "{title}", "state": "open"}}}}'
            await caller.call("graph.load", graph_id="crm", data=record, branch=branch)
        refused = await caller.refusal("graph.branches_merge", graph_id="crm", source="work")
        assert refused.code == "MERGE_CONFLICTS"
        found: Any = refused.details["merge_conflicts"]
        assert [(item["kind"], item["entity_id"]) for item in found] == [("divergent_update", "t1")]
        stale = await caller.refusal("graph.branches_merge", graph_id="crm", source="work", if_graph_commit="c_0")
        assert stale.code == "PRECONDITION_FAILED"

    with_crm(open_caller, test)


def test_a_merge_is_looked_at_before_it_is_made(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await proposed(caller)
        seen = await caller.call("graph.branches_preview", graph_id="crm", source="work")
        assert (seen["outcome"], seen["changes"], seen["conflicts"]) == ("fast_forward", 1, [])
        compared = {"source": "work", "target_snapshot": seen["base_commit_id"]}
        [change] = (await caller.call("graph.diff", graph_id="crm", **compared))["changes"]
        assert change["entity_id"] == "t1"
        heads = {"if_source_commit": seen["source_commit_id"], "if_graph_commit": seen["target_commit_id"]}
        await caller.call("graph.branches_merge", graph_id="crm", source="work", **heads)
        done = await caller.call("graph.branches_preview", graph_id="crm", source="work")
        assert (done["outcome"], done["changes"]) == ("already_up_to_date", 0)
        unknown = await caller.refusal("graph.branches_preview", graph_id="crm", source="nothing")
        assert unknown.code == "BRANCH_NOT_FOUND"

    with_crm(open_caller, test)


def test_conflicts_are_seen_before_a_merge_is_tried(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await caller.call("graph.branches_create", graph_id="crm", name="work")
        for branch, title in (("main", "Uno"), ("work", "Eins")):
            record = f'{{"type": "Task", "data": {{"slug": "t1", "title": "{title}", "state": "open"}}}}'
            await caller.call("graph.load", graph_id="crm", data=record, branch=branch)
        seen = await caller.call("graph.branches_preview", graph_id="crm", source="work")
        assert (seen["outcome"], seen["total_conflicts"], seen["base_commit_id"]) == ("conflicts", 1, None)
        assert [(item["kind"], item["entity_id"]) for item in seen["conflicts"]] == [("divergent_update", "t1")]

    with_crm(open_caller, test)


async def merge_as(caller: Caller, **more: Any) -> Any:
    return (await caller.reply("graph.branches_merge", graph_id="crm", source="work", **more)).value


def test_a_merge_into_a_protected_branch_waits_and_shows_its_difference(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await proposed(caller)
        person = await caller.new_caller("graph:*", "preflight:run", name="Ada", kind="person")
        preview = await person.call(
            "preflight.run", operation="graph.branches_merge", arguments={"graph_id": "crm", "source": "work"}
        )
        assert (preview["would"], [item["entity_id"] for item in preview["impact"]["diff"]]) == ("hold", ["t1"])
        held = await merge_as(person)
        assert held.questions
        approver = await caller.new_caller("*", name="Bob", kind="person", groups=["approvers"])
        draft = await approver.call("draft.get", draft_id=held.execution_id)
        assert draft["state_witness"]["diff"][0]["after"]["data"]["state"] == "done"
        await approver.call("draft.approve", draft_id=held.execution_id, digest=draft["digest"])
        await ended(caller, held.execution_id)
        rows = await caller.call("graph.query_run", graph_id="crm", name="tasks_of", params={"owner": "ada"})
        assert rows["rows"][0]["state"] == "done"

    with_crm(open_caller, test, protected_branches=["main"])


def test_an_approval_holds_only_for_the_difference_that_was_shown(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await proposed(caller)
        person = await caller.new_caller("graph:*", name="Ada", kind="person")
        held = await merge_as(person)
        await caller.call("graph.query_run", graph_id="crm", name="close_task", params={"slug": "t2"}, branch="work")
        approver = await caller.new_caller("*", name="Bob", kind="person", groups=["approvers"])
        draft = await approver.call("draft.get", draft_id=held.execution_id)
        drifted = await approver.refusal("draft.approve", draft_id=held.execution_id, digest=draft["digest"])
        assert drifted.code == "DRAFT_DRIFTED"

    with_crm(open_caller, test, protected_branches=["main"])


def test_direct_changes_of_a_protected_branch_wait_too_and_the_owner_is_not_asked(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        agent = await caller.new_caller("graph:*", name="agent", kind="agent")
        run: dict[str, Any] = {"graph_id": "crm", "name": "close_task", "params": {"slug": "t1"}}
        outcome = await agent.outcome("graph.query_run", **run)
        assert isinstance(outcome, AnsweredCall)
        assert outcome.reply.value.execution_id  # type: ignore[union-attr]  # a held call
        load = await agent.outcome("graph.load", graph_id="crm", data='{"type": "User", "data": {"handle": "eve"}}')
        assert isinstance(load, AnsweredCall)
        assert load.reply.value.execution_id  # type: ignore[union-attr]  # a held call
        assert (await caller.call("graph.query_run", **run))["affected_nodes"] == 1

    with_crm(open_caller, test, protected_branches=["main"])


def test_a_load_that_forks_a_branch_needs_the_right_to_create_one(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        record = '{"type": "User", "data": {"handle": "eve"}}'
        missing = await caller.refusal("graph.load", graph_id="crm", data=record, branch="new")
        assert missing.code == "BRANCH_NOT_FOUND"
        made = await caller.call("graph.load", graph_id="crm", data=record, branch="new", source="main")
        assert (made["branch_created"], made["base_branch"], made["total_entities"]) == (True, "main", 1)

    with_crm(open_caller, test)


def test_a_protected_branch_is_not_deleted_without_approval_directly_or_by_a_merge(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await proposed(caller)
        person = await caller.new_caller("graph:*", name="Ada", kind="person")
        held = (await person.reply("graph.branches_delete", graph_id="crm", name="work")).value
        assert held.questions
        merged = await merge_as(person, delete_branch=True)
        assert (merged.branch_deleted, "work is protected" in merged.branch_delete_error) == (False, True)
        branches = await caller.call("graph.branches_list", graph_id="crm")
        assert {item["name"] for item in branches["branches"]} == {"main", "work"}

    with_crm(open_caller, test, protected_branches=["work"])
