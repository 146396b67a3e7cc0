"""Workflow documents through the gate: what could be stored and never called, started or fetched is refused."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.base import limits
from penstock.operations.builtin import builtin_operations
from tests.unit.operations.conftest import Caller, OpenGate
from tests.unit.operations.documents import DOUBLE, workflow
from tests.unit.operations.running import run


def published(name: str) -> dict[str, Any]:
    """A document of the published format, in which any name is possible."""
    return {
        "document": {"schema": "urn:example", "name": name, "version": "1.0.0"},
        "state_schema": {"type": "object"},
        "nodes": [{"id": "start", "type": "start"}, {"id": "end", "type": "end"}],
        "edges": [{"source": "__start__", "target": "start"}, {"source": "start", "target": "end"}],
    }


@pytest.mark.parametrize(
    "name", ["a/b", "a\nb", "a\r\nX-Header: 1", "a\x00b", "a\u2028b", "x" * 129, ".", "..", "export", "validate"]
)
def test_a_workflow_whose_name_stands_in_no_path_is_refused(open_caller: OpenGate, name: str) -> None:
    async def test(caller: Caller) -> None:
        error = await caller.refusal("workflow.create", document=published(name))
        assert error.code == "INVALID_DOCUMENT"
        assert (await caller.refusal("workflow.import", workflows=[published(name)])).code == "INVALID_DOCUMENT"
        names = [item["id"] for item in (await caller.call("workflow.list"))["items"]]
        assert name not in names

    run(open_caller, test)


@pytest.mark.parametrize(("name", "place"), [("a b", "/workflows/a%20b"), ("ä~", "/workflows/%C3%A4~")])
def test_other_names_are_escaped_in_the_address(open_caller: OpenGate, name: str, place: str) -> None:
    async def test(caller: Caller) -> None:
        reply = await caller.reply("workflow.create", document=published(name))
        assert reply.location == place
        assert (await caller.call("workflow.get", workflow_id=name))["id"] == name

    run(open_caller, test)


def test_no_word_beside_the_names_of_workflows_in_paths_can_be_a_name(open_caller: OpenGate) -> None:
    paths = [item.route.path for item in builtin_operations() if item.route is not None]
    words = {path.split("/")[2] for path in paths if path.startswith("/workflows/")} - {"{workflow_id}"}

    async def test(caller: Caller) -> None:
        for word in words:
            refused = await caller.refusal("workflow.create", document=workflow(word, {"id": "done", "type": "end"}))
            assert refused.code == "INVALID_DOCUMENT"

    assert words
    run(open_caller, test)


@pytest.mark.parametrize(
    "schedule", [{"cron": "often"}, {"cron": "0 3 * * *", "timezone": "Europe"}, {"cron": "0 3 * * *", "jitter": "1x"}]
)
def test_a_workflow_with_a_schedule_that_cannot_be_kept_is_not_stored(
    open_caller: OpenGate, schedule: dict[str, str]
) -> None:
    async def test(caller: Caller) -> None:
        end = {"id": "done", "type": "end"}
        document = workflow("timed", end, triggers=[{"schedule": {"cron": "0 3 * * *"}}, {"schedule": schedule}])
        error = await caller.refusal("workflow.create", document=document)
        assert error.code == "INVALID_DOCUMENT"
        assert (await caller.refusal("workflow.get", workflow_id="timed")).code == "WORKFLOW_NOT_FOUND"
        assert (await caller.call("schedule.list"))["items"] == []

    run(open_caller, test)


def test_a_trigger_cannot_have_the_id_of_another_tenants_schedule(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        trigger = {"id": "acme~.nightly", "schedule": {"cron": "0 3 * * *"}}
        document = workflow("timed", {"id": "done", "type": "end"}, triggers=[trigger])
        assert (await caller.refusal("workflow.create", document=document)).code == "INVALID_DOCUMENT"
        acme = await caller.new_caller("*", tenant="acme")
        await acme.call("workflow.create", document=DOUBLE)
        given = {"number": 1}
        await acme.call("schedule.create", workflow_id="double", schedule_id="nightly", cron="0 3 * * *", input=given)

    run(open_caller, test)


def test_an_object_must_not_be_longer_than_a_text(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        document = workflow("long", {"id": "done", "type": "end", "output": "x" * limits.DOCUMENT_BYTES_MAX})
        assert (await caller.refusal("workflow.create", document=document)).code == "INVALID_DOCUMENT"
        (finding,) = (await caller.call("workflow.validate", document=document))["findings"]
        assert finding["code"] == "DOCUMENT_TOO_LARGE"

    run(open_caller, test)


def test_a_deleted_workflow_cannot_be_started_or_read_by_its_hash(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        made = await caller.call("workflow.get", workflow_id="double")
        await caller.call("workflow.delete", workflow_id="double")
        for operation in ("workflow.get", "workflow.execute"):
            error = await caller.refusal(operation, workflow_id="double", hash=made["hash"])
            assert error.code == "WORKFLOW_NOT_FOUND"
        refused = await caller.refusal("workflow.delete", workflow_id="double", if_match=f'"{made["hash"]}"')
        assert refused.code == "WORKFLOW_NOT_FOUND"

    run(open_caller, test)


def test_a_deletion_of_another_version_is_refused(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        refused = await caller.refusal("workflow.delete", workflow_id="double", if_match='"other"')
        assert refused.code == "PRECONDITION_FAILED"
        assert (await caller.call("workflow.get", workflow_id="double"))["id"] == "double"

    run(open_caller, test)
