"""What an agent wrote stays an agent's, whoever changes, runs or repeats a part of it, or sends it along."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from penstock.operations.gate.context import HoldChoices, NodeVisit
from penstock.runtime.schedules.scheduler import NotAllowed, Started
from penstock.runtime.tables.resources import read_resource
from penstock.runtime.tables.schedules import list_schedules
from tests.scenarios.office import Office, in_office, open_office, staff
from tests.scenarios.test_authorship import WRAPPER, accepted
from tests.scenarios.test_weaker_author import LISTS_KEYS
from tests.waiting import SECONDS_MAX

MODEL: dict[str, Any] = {"surface": "mcp"}
PLAIN: dict[str, Any] = {"penstock": "v1", "name": "plain", "nodes": [{"id": "done", "type": "end", "output": "ran"}]}
PAUSE = {"id": "pause", "type": "wait", "duration": "1ms"}


async def run(office: Office, name: str, who: Any = "boss") -> Any:
    return await office.call(who, "workflow.execute", workflow_id=name, sync=True)


@pytest.mark.parametrize("operation", ["task.create", "task.update", "task.delete"])
def test_a_person_who_changes_one_task_does_not_answer_for_the_others(tmp_path: Path, operation: str) -> None:
    changes: dict[str, dict[str, Any]] = {
        "task.create": {"task": {**PAUSE, "id": "another"}, "after": "inner"},
        "task.update": {"task_id": "pause", "task": {**PAUSE, "duration": "2ms"}},
        "task.delete": {"task_id": "pause"},
    }
    nodes = [PAUSE, *WRAPPER["nodes"]]
    clock = {"id": "tick", "schedule": {"cron": "0 3 * * *"}}

    async def test(office: Office) -> None:
        await office.hire("boss", "person", "*")
        theirs = {**WRAPPER, "nodes": nodes, "triggers": [clock]}
        await accepted(office, await office.call("robot", "workflow.create", document=theirs))
        await office.call("boss", operation, workflow_id="wrapper", **changes[operation])
        assert (await office.call("boss", "workflow.execute", workflow_id="wrapper"))["status"] == "waiting_approval"
        scheduler = office.gate.services.scheduler
        (row,) = [
            row
            for row in await list_schedules(office.penstock.store.database)
            if row.workflow_name != "everything_nightly"
        ]
        assert scheduler.fire is not None
        assert isinstance(await scheduler.fire(row, "tonight"), NotAllowed)
        assert await office.erased() == []

    in_office(tmp_path, test)


def test_a_person_who_changes_when_a_schedule_is_due_does_not_answer_for_its_input(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await office.hire("boss", "person", "*")
        await office.call("boss", "workflow.create", document=WRAPPER)
        made = await office.call(
            "robot", "schedule.create", schedule_id="tick", workflow_id="wrapper", cron="0 3 * * *"
        )
        await accepted(office, made)
        await office.call("boss", "schedule.update", schedule_id="tick", cron="0 4 * * *")
        scheduler = office.gate.services.scheduler
        (row,) = [
            row
            for row in await list_schedules(office.penstock.store.database)
            if row.workflow_name != "everything_nightly"
        ]
        assert scheduler.fire is not None
        outcome = await scheduler.fire(row, "tonight")
        assert isinstance(outcome, NotAllowed), outcome
        assert outcome.code == "APPROVAL_REQUIRED"
        assert await office.erased() == []

    in_office(tmp_path, test)


def test_a_schedule_that_a_model_over_mcp_made_starts_nothing_that_would_have_to_wait(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await office.hire("boss", "person", "*")
        await office.call("boss", "workflow.create", document=WRAPPER)
        body = {"workflow_id": "wrapper", "cron": "0 3 * * *"}
        await accepted(office, await office.call("boss", "schedule.create", schedule_id="tick", request=MODEL, **body))
        await office.call("boss", "schedule.create", schedule_id="tock", **body)
        scheduler = office.gate.services.scheduler
        rows = {row.schedule_id: row for row in await list_schedules(office.penstock.store.database)}
        assert scheduler.fire is not None
        assert isinstance(await scheduler.fire(rows["tick"], "tonight"), NotAllowed)
        assert isinstance(await scheduler.fire(rows["tock"], "tonight"), Started)

    in_office(tmp_path, test)


def test_a_person_who_rotates_the_secret_of_a_webhook_does_not_accept_its_address(tmp_path: Path) -> None:
    async def test() -> None:
        async with open_office(tmp_path, HoldChoices(preset="open")) as office:
            await staff(office)
            made = await office.call("robot", "webhook.create", url="https://evil.example/events")
        async with open_office(tmp_path) as office:
            await office.hire("boss", "person", "*")
            endpoint_id = made["webhook"]["id"]
            await office.call("boss", "webhook.rotate", endpoint_id=endpoint_id)
            row = await read_resource(office.gate.services.platform, "default", "webhook", endpoint_id)
            assert row is not None
            assert row.author is not None
            assert (row.author.kind, row.author.is_accepted) == ("agent", False)

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))


def test_one_task_of_a_workflow_has_the_scopes_of_its_author_whoever_runs_it(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await office.hire("boss", "person", "*")
        await office.hire("narrow", "agent", "workflow:*", "draft:*")
        await accepted(office, await office.call("narrow", "workflow.create", document=LISTS_KEYS))
        alone = {"workflow_id": "lists_keys", "task_id": "keys", "sync": True}
        failed = await office.call("boss", "task.execute", **alone)
        assert (failed["status"], failed["error"]["code"]) == ("failed", "SCOPE_REQUIRED"), failed
        again = await office.call("boss", "execution.retry", execution_id=failed["execution_id"])
        found = await office.call("boss", "execution.wait", execution_id=again["execution_id"], wait_seconds=60)
        assert found["error"]["code"] == "SCOPE_REQUIRED", found
        await office.call("boss", "workflow.update", workflow_id="lists_keys", document=LISTS_KEYS)
        assert (await office.call("boss", "task.execute", **alone))["status"] == "completed"

    in_office(tmp_path, test)


async def send_along(office: Office, document: dict[str, Any], who: str = "boss", **more: Any) -> Any:
    """Start a definition as a client of MCP does."""
    return await office.call(who, "control.workflow_start", definition=document, request=MODEL, **more)


def test_a_version_that_a_model_sent_along_takes_effect_in_its_own_run_alone(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await office.hire("boss", "person", "*")
        parent = {
            "penstock": "v1",
            "name": "parent",
            "nodes": [{"id": "inner", "type": "subworkflow", "workflow": "plain"}, {"id": "done", "type": "end"}],
        }
        await office.call("boss", "workflow.create", document=parent)
        done = await send_along(office, PLAIN, execution_id="sent")
        assert done["status"] == "completed", done
        labels = (await office.call("boss", "execution.status", execution_id="sent"))["labels"]
        assert labels["penstock.author"] == "agent"
        for operation, arguments in (
            ("workflow.execute", {"workflow_id": "plain"}),
            ("schedule.create", {"workflow_id": "plain", "cron": "0 3 * * *"}),
            ("task.execute", {"workflow_id": "plain", "task_id": "done"}),
        ):
            refused = await office.refusal("boss", operation, **arguments)
            assert refused.code == "VERSION_PROPOSED", (operation, refused)
        assert (await run(office, "parent"))["error"]["code"] == "VERSION_PROPOSED"
        # The run itself can be repeated, and a person who stores the version answers for it.
        again = await office.call("boss", "execution.fork", execution_id="sent", at_sequence=1)
        found = await office.call("boss", "execution.wait", execution_id=again["execution_id"], wait_seconds=60)
        assert found["status"] == "completed"
        await office.call("boss", "workflow.update", workflow_id="plain", document=PLAIN)
        assert (await run(office, "parent"))["status"] == "completed"

    in_office(tmp_path, test)


def test_a_version_that_a_model_sends_along_replaces_none_that_somebody_stored(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await office.hire("boss", "person", "*")
        await accepted(office, await office.call("robot", "workflow.create", document=PLAIN))
        other = {**PLAIN, "title": "Another"}
        refused = await office.refusal("boss", "control.workflow_start", definition=other, request=MODEL)
        assert refused.code == "NAME_TAKEN", refused
        # What was only sent along is replaced by what is sent next.
        for title in ("First", "Second"):
            done = await send_along(office, {**PLAIN, "name": "draft", "title": title})
            assert done["status"] == "completed", done

    in_office(tmp_path, test)


def test_a_run_that_a_model_sent_along_goes_on_as_a_new_one_and_calls_itself(tmp_path: Path) -> None:
    nodes = [
        {"id": "which", "type": "switch", "cases": [{"when": ".input.left > 0", "next": "less"}], "default": "done"},
        {"id": "less", "type": "continue_as_new", "input": {"left": "${ .input.left - 1 }"}},
        {"id": "done", "type": "end", "output": "ran"},
    ]
    chain = {"penstock": "v1", "name": "chain", "nodes": nodes}

    async def test(office: Office) -> None:
        await office.hire("boss", "person", "*")
        done = await send_along(office, chain, input={"left": 2}, execution_id="chain")
        assert done["status"] == "completed", done

    in_office(tmp_path, test)


def test_whose_version_is_repeated_is_looked_up_in_the_tenant_of_the_run(tmp_path: Path) -> None:
    async def test() -> None:
        async with open_office(tmp_path, HoldChoices(preset="open")) as office:
            await staff(office)
            other = await office.hire("other", "agent", "*", tenant="acme")
            await office.call(other, "workflow.create", document=PLAIN)
            boss = await office.hire("boss", "person", "*")
            await office.call(boss, "workflow.create", document=PLAIN)
            done = await run(office, "plain")
        async with open_office(tmp_path) as office:
            again = await office.call(boss, "execution.fork", execution_id=done["execution_id"], at_sequence=1)
            assert again["status"] in ("running", "completed"), again

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))


def test_a_node_that_a_model_sent_under_open_is_not_repeated_later(tmp_path: Path) -> None:
    task = {"id": "keys", "type": "tool_call", "server": "penstock", "tool": "key.list", "arguments": {}}
    inside = {"surface": "run", "visit": NodeVisit(run_id="r_1", node_id="ask", visit=1, by_model=True)}

    async def test() -> None:
        async with open_office(tmp_path, HoldChoices(preset="open")) as office:
            await staff(office)
            boss = await office.hire("boss", "person", "*")
            done = await office.call(boss, "task.execute", task=task, sync=True, request=inside)
            assert done["status"] == "completed", done
        async with open_office(tmp_path) as office:
            refused = await office.refusal(boss, "execution.fork", execution_id=done["execution_id"], at_sequence=1)
            assert refused.code == "VERSION_PROPOSED"
            assert "nobody has accepted" in str(refused.hint)

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))


def test_triggers_of_a_definition_that_is_sent_along_begin_at_once_also_after_it_was_deleted(tmp_path: Path) -> None:
    clock = {**PLAIN, "triggers": [{"id": "tick", "schedule": {"cron": "0 3 * * *"}}]}

    async def test(office: Office) -> None:
        await office.hire("boss", "person", "*")
        for _ in range(2):
            await office.call("boss", "control.workflow_start", definition=clock)
            (row,) = [
                row
                for row in await list_schedules(office.penstock.store.database)
                if row.workflow_name != "everything_nightly"
            ]
            assert row.schedule_id == "tick"
            await office.call("boss", "workflow.delete", workflow_id="plain")
            rows = await list_schedules(office.penstock.store.database)
            assert [row.schedule_id for row in rows if row.workflow_name != "everything_nightly"] == []

    in_office(tmp_path, test)
