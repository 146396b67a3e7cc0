"""Nodes with `server: penstock` call capabilities of the server: with the rights of whoever started the run, once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from penstock.base import limits
from penstock.base.json import JsonObject
from penstock.definitions.validate import validate_document
from penstock.operations.executions.capability_calls import is_allowed
from tests.scenarios.office import Office, in_office, open_office, staff
from tests.waiting import SECONDS_MAX, until, until_found

SLOW: JsonObject = {
    "penstock": "v1",
    "name": "slow",
    "expose": {"tool": True},
    "nodes": [
        {"id": "asked", "type": "wait", "signal": "go"},
        {"id": "done", "type": "end", "output": {"went": True}},
    ],
}

AGAIN: JsonObject = {
    "penstock": "v1",
    "name": "again",
    "input": {
        "type": "object",
        "properties": {"round": {"type": "integer", "default": 1}, "waits": {"type": "boolean"}},
    },
    "expose": {"tool": True},
    "nodes": [
        {"id": "which", "type": "switch", "cases": [{"when": ".input.round == 1", "next": "next"}], "default": "last"},
        {"id": "next", "type": "continue_as_new", "input": {"round": 2, "waits": "${ .input.waits }"}},
        {"id": "last", "type": "switch", "cases": [{"when": ".input.waits", "next": "asked"}], "default": "done"},
        {"id": "asked", "type": "wait", "signal": "go"},
        {"id": "done", "type": "end", "output": {"round": "${ .input.round }"}},
    ],
}
"""A workflow whose run continues as a new one, which may wait."""


def calling(tool: str, arguments: JsonObject | None = None, *, name: str = "caller", **more: Any) -> JsonObject:
    """A workflow with one call; its output is the result, or the error."""
    call: JsonObject = {"id": "called", "type": "tool_call", "server": "penstock", "tool": tool, **more}
    if arguments is not None:
        call["arguments"] = arguments
    return {
        "penstock": "v1",
        "name": name,
        "nodes": [
            {**call, "on_error": {"next": "failed"}},
            {"id": "done", "type": "end", "output": "${ .called }"},
            {"id": "failed", "type": "end", "output": {"code": "${ .error.code }", "message": "${ .error.message }"}},
        ],
    }


async def ran(office: Office, who: Any, document: JsonObject, **more: Any) -> Any:
    """The output of a run of a workflow that calls something."""
    await office.call(office.owner, "workflow.create", document=document)
    answer = await office.call(who, "workflow.execute", workflow_id=document["name"], sync=True, **more)
    assert answer["status"] == "completed", answer
    return answer["output"]


async def status(office: Office, execution_id: str) -> Any:
    return await office.call(office.owner, "execution.status", execution_id=execution_id)


async def waiting_for_a_signal(office: Office, workflow_id: str) -> str:
    """The id of the run of a workflow that waits for a signal, as soon as there is one."""

    async def found() -> Any:
        listed = await office.call(office.owner, "execution.list", workflow_id=workflow_id, status=["waiting_signal"])
        return listed["items"] or None

    return str((await until_found(found))[0]["execution_id"])


async def the_draft(office: Office) -> str:
    """The id of the only call that waits."""

    async def waiting() -> Any:
        return (await office.call("ada", "draft.list"))["items"]

    await until(waiting)
    [draft] = await waiting()
    return str(draft["id"])


def test_a_name_is_allowed_by_itself_or_by_a_pattern() -> None:
    assert is_allowed("workflow:a", ("workflow:a",))
    assert not is_allowed("workflow:ab", ("workflow:a",))
    assert is_allowed("query:shop.find", ("query:*",))
    assert not is_allowed("workflow:a", ("query:*", "work"))
    assert not is_allowed("workflow:a", ())


def test_a_call_of_a_workflow_that_ends_at_once_looks_for_its_run_only_before_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once: JsonObject = {**SLOW, "name": "at_once", "nodes": [{"id": "done", "type": "end", "output": {"went": 1}}]}

    async def test(office: Office) -> None:
        await office.call(office.owner, "workflow.create", document=at_once)
        store, found = office.penstock.store, []
        row = store.row

        async def noted(run_id: str) -> Any:
            found.append(await row(run_id))
            return found[-1]

        monkeypatch.setattr(store, "row", noted)
        assert await ran(office, office.owner, calling("workflow:at_once")) == {"went": 1}
        # Once to find out whether an earlier attempt made the call, once by the start itself.
        assert [item for item in found if item is None or item.workflow_name == "at_once"] == [None, None]

    in_office(tmp_path, test)


def test_a_node_calls_a_workflow_and_gets_its_output(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        clerk = await office.hire("clerk", "person", "*")
        output = await ran(office, "clerk", calling("workflow:erase_customer", {"customer": "C-1"}))
        assert output == {"erased": "C-1"}
        records = (await office.call(office.owner, "audit.list", operation="workflow:erase_customer"))["items"]
        assert [(item["principal"], item["surface"], item["outcome"]) for item in records] == [
            (clerk.id, "run", "allowed")
        ]

    in_office(tmp_path, test)


def test_a_node_calls_a_built_in_operation_and_gets_its_answer(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        output = await ran(office, office.owner, calling("workflow.list", {"limit": 1}))
        assert [item["id"] for item in output["items"]] == ["caller"]

    in_office(tmp_path, test)


def test_a_call_has_the_rights_of_the_starter_and_no_others(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await office.hire("starter", "person", "workflow:run", "execution:read")
        refused = await ran(office, "starter", calling("workflow.delete", {"workflow_id": "erase_customer"}))
        assert refused["code"] == "SCOPE_REQUIRED"

    in_office(tmp_path, test)


def test_a_key_that_was_revoked_calls_nothing_any_more(tmp_path: Path) -> None:
    nodes: list[Any] = [{"id": "asked", "type": "wait", "signal": "go"}]
    document = calling("workflow.list", {})
    document = {**document, "nodes": [*nodes, *document["nodes"]]}  # type: ignore[misc]

    async def test(office: Office) -> None:
        clerk = await office.hire("clerk", "person", "*")
        await office.call(office.owner, "workflow.create", document=document)
        begun = await office.call("clerk", "workflow.execute", workflow_id="caller")
        await office.call(office.owner, "key.revoke", key_id=clerk.key_id)
        run_id = begun["execution_id"]
        await office.call(office.owner, "execution.signal", execution_id=run_id, name="go")
        ended = await office.call(office.owner, "execution.wait", execution_id=run_id)
        assert ended["output"]["code"] == "KEY_REVOKED"

    in_office(tmp_path, test)


def test_a_list_narrows_what_can_be_called(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        arguments: JsonObject = {"name": "workflow.delete", "arguments": {"workflow_id": "erase_customer"}}
        refused = await ran(office, office.owner, calling("tools/call", arguments, allow=["workflow:*"]))
        assert refused["code"] == "TOOL_NOT_ALLOWED"
        listed = await ran(
            office, office.owner, calling("tools/list", name="lister", allow=["workflow:*", "workflow:gone"])
        )
        [tool] = listed["tools"]
        assert (tool["name"], tool["trusted"]) == ("workflow:erase_customer", True)
        assert tool["input_schema"]["required"] == ["customer"]
        assert listed["left_out"] == ["workflow:gone"]

    in_office(tmp_path, test)


def test_tools_that_a_caller_may_not_use_are_not_listed(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await office.hire("starter", "person", "workflow:run", "execution:read")
        document = calling("tools/list", allow=["workflow.delete", "workflow:*"])
        listed = await ran(office, "starter", document)
        assert [tool["name"] for tool in listed["tools"]] == ["workflow:erase_customer"]
        assert listed["left_out"] == ["workflow.delete"]

    in_office(tmp_path, test)


def test_a_call_that_takes_long_is_waited_for_without_a_place_and_across_a_restart(tmp_path: Path) -> None:
    async def test() -> None:
        async with open_office(tmp_path) as office:
            await staff(office)
            await office.call(office.owner, "workflow.create", document=SLOW)
            await office.call(office.owner, "workflow.create", document=calling("workflow:slow", {}))
            begun = await office.call(office.owner, "workflow.execute", workflow_id="caller")

            async def called() -> Any:
                return (await office.call(office.owner, "execution.list", workflow_id="slow"))["items"]

            await until(called)
            assert (await status(office, begun["execution_id"]))["status"] == "waiting_activity"
        async with open_office(tmp_path) as office:
            [slow] = (await office.call(office.owner, "execution.list", workflow_id="slow"))["items"]
            await office.call(office.owner, "execution.signal", execution_id=slow["execution_id"], name="go")
            ended = await office.call(office.owner, "execution.wait", execution_id=begun["execution_id"])
            assert (ended["status"], ended["output"]) == ("completed", {"went": True})
            assert len((await office.call(office.owner, "execution.list", workflow_id="slow"))["items"]) == 1

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))


def test_a_call_whose_run_continues_as_new_returns_the_output_of_the_last_run(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await office.call(office.owner, "workflow.create", document=AGAIN)
        assert await ran(office, office.owner, calling("workflow:again", {"waits": False})) == {"round": 2}
        document = calling("workflow:again", {"waits": True}, name="patient")
        await office.call(office.owner, "workflow.create", document=document)
        begun = await office.call(office.owner, "workflow.execute", workflow_id="patient")
        last = await waiting_for_a_signal(office, "again")
        await office.call(office.owner, "execution.signal", execution_id=last, name="go")
        ended = await office.call(office.owner, "execution.wait", execution_id=begun["execution_id"])
        assert (ended["status"], ended["output"]) == ("completed", {"round": 2})
        # Waiting for a run that another call began is no call of one's own, and its answer the whole result.
        first = {"execution_id": begun["execution_id"], "wait_seconds": 1}
        answer = await ran(office, office.owner, calling("execution.wait", first, name="looks"))
        assert (answer["execution_id"], answer["output"]) == (begun["execution_id"], {"round": 2})

    in_office(tmp_path, test)


def test_a_run_that_is_cancelled_takes_what_its_call_continued_as_with_it(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await office.call(office.owner, "workflow.create", document=AGAIN)
        await office.call(office.owner, "workflow.create", document=calling("workflow:again", {"waits": True}))
        begun = await office.call(office.owner, "workflow.execute", workflow_id="caller")
        last = await waiting_for_a_signal(office, "again")

        async def waits() -> bool:
            driver = office.penstock.driver
            return driver is not None and bool(driver._only_waiting)

        await until(waits)
        await office.call(office.owner, "execution.cancel", execution_id=begun["execution_id"])

        async def cancelled() -> bool:
            return bool((await status(office, last))["status"] == "cancelled")

        await until(cancelled)

    in_office(tmp_path, test)


def test_a_call_by_a_model_waits_for_approval_and_goes_on_after_a_restart(tmp_path: Path) -> None:
    document = calling("workflow:erase_customer", {"customer": "C-7"}, by_model=True)

    async def test() -> None:
        async with open_office(tmp_path) as office:
            await staff(office)
            await office.hire("clerk", "person", "*")
            await office.call(office.owner, "workflow.create", document=document)
            begun = await office.call("clerk", "workflow.execute", workflow_id="caller")
            draft_id = await the_draft(office)
            assert (await status(office, begun["execution_id"]))["status"] == "waiting_activity"
            assert await office.erased() == []
        async with open_office(tmp_path) as office:
            ada = await office.hire("ada2", "person", "draft:*", "execution:*", "approve:approvers")
            await office.call(ada, "draft.approve", draft_id=draft_id)
            ended = await office.call(office.owner, "execution.wait", execution_id=begun["execution_id"])
            assert (ended["status"], ended["output"]) == ("completed", {"erased": "C-7"})
            assert await office.erased() == ["C-7"]

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))


def test_a_call_that_is_rejected_fails_with_that_reason(tmp_path: Path) -> None:
    document = calling("workflow:erase_customer", {"customer": "C-7"}, by_model=True)

    async def test(office: Office) -> None:
        await office.hire("clerk", "person", "*")
        await office.call(office.owner, "workflow.create", document=document)
        begun = await office.call("clerk", "workflow.execute", workflow_id="caller")
        await office.call("ada", "draft.reject", draft_id=await the_draft(office))
        ended = await office.call(office.owner, "execution.wait", execution_id=begun["execution_id"])
        assert ended["output"]["code"] == "DRAFT_REJECTED"
        assert await office.erased() == []

    in_office(tmp_path, test)


def test_what_an_approved_call_starts_is_waited_for_too(tmp_path: Path) -> None:
    risky = {**SLOW, "governance": {"risk": "high"}}

    async def test(office: Office) -> None:
        await office.hire("clerk", "person", "*")
        await office.call(office.owner, "workflow.create", document=risky)
        await office.call(office.owner, "workflow.create", document=calling("workflow:slow", {}, by_model=True))
        begun = await office.call("clerk", "workflow.execute", workflow_id="caller")
        draft_id = await the_draft(office)
        approving = asyncio.ensure_future(office.call("ada", "draft.approve", draft_id=draft_id))

        async def started() -> Any:
            return (await office.call(office.owner, "execution.list", workflow_id="slow"))["items"]

        await until(started)
        [slow] = await started()
        assert (await approving)["status"] == "executed"
        assert (await status(office, begun["execution_id"]))["status"] == "waiting_activity"
        await office.call(office.owner, "execution.signal", execution_id=slow["execution_id"], name="go")
        ended = await office.call(office.owner, "execution.wait", execution_id=begun["execution_id"])
        assert ended["output"] == {"went": True}

    in_office(tmp_path, test)


def test_a_run_that_is_cancelled_takes_its_call_with_it(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await office.call(office.owner, "workflow.create", document=SLOW)
        await office.call(office.owner, "workflow.create", document=calling("workflow:slow", {}))
        begun = await office.call(office.owner, "workflow.execute", workflow_id="caller")

        async def listed() -> Any:
            return (await office.call(office.owner, "execution.list", workflow_id="slow"))["items"]

        await until(listed)

        async def waits() -> bool:
            driver = office.penstock.driver
            return driver is not None and bool(driver._only_waiting)

        await until(waits)
        await office.call(office.owner, "execution.cancel", execution_id=begun["execution_id"])

        async def cancelled() -> bool:
            return bool((await listed())[0]["status"] == "cancelled")

        await until(cancelled)

    in_office(tmp_path, test)


def test_runs_that_call_each_other_end_at_a_depth(tmp_path: Path) -> None:
    circle: JsonObject = {**calling("workflow:caller", {}), "expose": {"tool": True}}

    async def test(office: Office) -> None:
        output = await ran(office, office.owner, circle)
        assert output["code"] == "CALLS_TOO_DEEP"
        runs = (await office.call(office.owner, "execution.list", workflow_id="caller"))["items"]
        assert len(runs) == limits.CALLED_RUNS_DEPTH_MAX + 1

    in_office(tmp_path, test)


def test_a_model_in_a_run_approves_nothing(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await office.hire("clerk", "person", "*")
        draft_id = await office.propose()
        document = calling("draft.approve", {"draft_id": draft_id}, by_model=True)
        assert (await ran(office, "clerk", document))["code"] == "PERSON_REQUIRED"
        assert await office.erased() == []

    in_office(tmp_path, test)


def test_a_secret_in_an_answer_does_not_enter_the_history(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        arguments: JsonObject = {"name": "spare", "scopes": ["workflow:read"]}
        assert await ran(office, office.owner, calling("key.create", arguments)) == {"withheld": True}

    in_office(tmp_path, test)


def test_a_call_with_unfit_arguments_says_what_is_wrong(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        refused = await ran(office, office.owner, calling("workflow:erase_customer", {"customer": 7}))
        assert refused["code"] == "INVALID_ARGUMENTS"
        assert "/customer" in refused["message"]

    in_office(tmp_path, test)


def test_a_list_is_asked_for_where_it_decides_and_refused_where_it_does_not() -> None:
    [missing] = validate_document(calling("tools/call", {"name": "x"}))
    assert (missing.code, missing.path) == ("MISSING_FIELD", "/nodes/0/tool")
    [useless] = validate_document(calling("workflow:erase_customer", {}, allow=["workflow:*"]))
    assert (useless.code, useless.path) == ("HAS_NO_EFFECT", "/nodes/0/allow")
    assert validate_document(calling("tools/list", allow=["workflow:*"])) == ()
