"""The id of a trigger belongs to one workflow of a tenant: a second document with it is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.base.json import JsonObject
from tests.scenarios.office import Office, in_office


def nightly(name: str, **trigger: Any) -> JsonObject:
    return {
        "penstock": "v1",
        "name": name,
        "triggers": [{"id": "nightly", "schedule": {"cron": "0 3 * * *"}, **trigger}],
        "nodes": [{"id": "done", "type": "end", "output": 1}],
    }


def test_a_second_document_with_the_id_of_a_schedule_is_refused_and_names_the_first(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await office.call(office.owner, "workflow.create", document=nightly("first"))
        await office.call(
            office.owner, "workflow.update", workflow_id="first", document=nightly("first", input={"a": 1})
        )
        refused = await office.refusal(office.owner, "workflow.create", document=nightly("second"))
        assert (refused.code, refused.details["workflow_id"]) == ("NAME_TAKEN", "first")
        assert "asks for the schedule nightly" in refused.message
        await office.call(office.owner, "workflow.create", document=nightly("second", enabled=False))
        refused = await office.refusal(
            office.owner, "workflow.update", workflow_id="second", document=nightly("second")
        )
        assert refused.code == "NAME_TAKEN"
        await office.call(office.owner, "workflow.delete", workflow_id="first")
        await office.call(office.owner, "workflow.update", workflow_id="second", document=nightly("second"))
        [schedule] = (await office.call(office.owner, "schedule.list", workflow_id="second"))["items"]
        assert (schedule["schedule_id"], schedule["workflow_id"]) == ("nightly", "second")

    in_office(tmp_path, test)


def test_a_document_does_not_take_the_id_of_a_schedule_that_a_person_made(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        plain = {name: value for name, value in nightly("other").items() if name != "triggers"}
        await office.call(office.owner, "workflow.create", document=plain)
        await office.call(office.owner, "schedule.create", schedule_id="nightly", workflow_id="other", cron="0 4 * * *")
        refused = await office.refusal(office.owner, "workflow.create", document=nightly("first"))
        assert (refused.code, refused.details["workflow_id"]) == ("NAME_TAKEN", "other")

    in_office(tmp_path, test)


def test_two_documents_with_one_webhook_are_refused_alike(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        hook = {"triggers": [{"id": "nightly", "webhook": {"path": "orders"}}]}
        await office.call(office.owner, "workflow.create", document={**nightly("first"), **hook})
        refused = await office.refusal(office.owner, "workflow.create", document={**nightly("second"), **hook})
        assert (refused.code, refused.details["workflow_id"]) == ("NAME_TAKEN", "first")

    in_office(tmp_path, test)
