"""Whose a name is: of a tool, a prompt, a resource or a webhook, within a tenant."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from penstock.app.penstock import Penstock
from penstock.runtime.stores.sqlite.schema import migrations
from tests.live.rest.servers import serving
from tests.unit.mcp_surface.assistants import Assistant, assisted
from tests.unit.runtime.stores.sqlite.schema.test_key_subjects import without_subjects

pytestmark = pytest.mark.anyio

# The last format of the file that did not say whose a name is.
VERSION_WITHOUT_NAMES = 6


def workflow(name: str, **more: Any) -> dict[str, Any]:
    return {"penstock": "v1", "name": name, "nodes": [{"id": "done", "type": "end", "output": name}], **more}


def hook(path: str) -> dict[str, Any]:
    return {"secrets": ["HOOK"], "triggers": [{"webhook": {"path": path, "secret": "${secret:HOOK}"}}]}


CLAIMS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "tool": ({"expose": {"tool": {"name": "pay"}}}, {"expose": {"tool": {"name": "pay"}}}),
    "tool by another spelling": ({"expose": {"tool": {"name": "pay.now"}}}, {"expose": {"tool": {"name": "pay_now"}}}),
    "tool by the name of the workflow": ({"expose": {"tool": True}}, {"expose": {"tool": {"name": "owner"}}}),
    "prompt": ({"expose": {"prompt": {"name": "review"}}}, {"expose": {"prompt": {"name": "review"}}}),
    "resource": ({"expose": {"resource": {"uri": "a://b"}}}, {"expose": {"resource": {"uri": "a://b"}}}),
    "webhook": (hook("/orders"), hook("orders")),
    "handler": ({"expose": {"sampling": True}}, {"expose": {"sampling": True}}),
}


@pytest.mark.parametrize("kind", CLAIMS)
async def test_a_name_that_a_workflow_has_is_refused_to_others_who_hear_whose_it_is(tmp_path: Path, kind: str) -> None:
    first, second = CLAIMS[kind]
    async with assisted(tmp_path, workflow("owner", **first)) as assistant:
        caller = assistant.caller
        await caller.call("workflow.create", document=workflow("aaa"))
        # Sorting before the owner does not help, neither when it is made nor when it is changed.
        for refused in (
            await caller.refusal("workflow.create", document=workflow("a", **second)),
            await caller.refusal("workflow.update", workflow_id="aaa", document=workflow("aaa", **second)),
        ):
            assert refused.code == "NAME_TAKEN"
            assert "the workflow owner" in refused.message
            assert refused.details["workflow_id"] == "owner"
        assert (await caller.refusal("workflow.get", workflow_id="a")).code == "WORKFLOW_NOT_FOUND"


async def test_a_tool_stays_whose_it_was(tmp_path: Path) -> None:
    async with assisted(tmp_path, workflow("pays", expose={"tool": {"name": "pay"}})) as assistant:
        await assistant.caller.refusal("workflow.create", document=workflow("a", expose={"tool": {"name": "pay"}}))
        assert (await assistant.call("pay"))["structuredContent"]["output"] == "pays"


async def test_a_name_is_released_by_a_version_without_it_and_by_deletion(tmp_path: Path) -> None:
    wanted = {"expose": {"tool": {"name": "pay"}}}
    async with assisted(tmp_path, workflow("owner", **wanted)) as assistant:
        caller = assistant.caller
        await caller.call("workflow.update", workflow_id="owner", document=workflow("owner", expose={"tool": True}))
        await caller.call("workflow.create", document=workflow("second", **wanted))
        back = await caller.refusal("workflow.update", workflow_id="owner", document=workflow("owner", **wanted))
        assert (back.code, back.details["workflow_id"]) == ("NAME_TAKEN", "second")
        await caller.call("workflow.delete", workflow_id="second")
        await caller.call("workflow.update", workflow_id="owner", document=workflow("owner", **wanted))


async def test_of_many_at_once_one_gets_the_name(tmp_path: Path) -> None:
    async with assisted(tmp_path) as assistant:
        documents = [workflow(f"w{number}", expose={"tool": {"name": "pay"}}) for number in range(12)]
        outcomes = await asyncio.gather(
            *(assistant.caller.outcome("workflow.create", document=document) for document in documents)
        )
        assert [hasattr(outcome, "reply") for outcome in outcomes].count(True) == 1


async def test_tenants_have_names_of_their_own(tmp_path: Path) -> None:
    wanted = {"expose": {"tool": {"name": "pay"}}}
    async with assisted(tmp_path, workflow("owner", **wanted)) as assistant:
        other: Assistant = await assistant.other("*", tenant="other")
        await other.caller.call("workflow.create", document=workflow("a", **wanted))


async def test_a_file_of_an_older_release_gives_names_to_whom_had_them_first(tmp_path: Path) -> None:
    path = tmp_path / "penstock.db"
    wanted = {"expose": {"tool": {"name": "pay"}}}
    async with Penstock.open(path) as penstock:
        await penstock.register(workflow("late"))
        await penstock.register(workflow("zebra", **wanted))
    connection = sqlite3.connect(path)
    for number in range(VERSION_WITHOUT_NAMES + 1, migrations.SCHEMA_VERSION + 1):
        for table in re.findall(r"CREATE (?:VIRTUAL )?TABLE (\w+)", migrations.MIGRATIONS[number]):
            connection.execute(f"DROP TABLE {table}")
        for table, column in re.findall(r"ALTER TABLE (\w+) ADD COLUMN (\w+)", migrations.MIGRATIONS[number]):
            connection.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
    # Added by steps that are no SQL, because they read what is there.
    without_subjects(connection)
    connection.execute("DROP INDEX runs_by_starter")
    connection.execute("ALTER TABLE runs DROP COLUMN started_by")
    connection.execute(f"PRAGMA user_version = {VERSION_WITHOUT_NAMES}")
    connection.commit()
    connection.close()
    async with assisted(tmp_path) as assistant:
        refused = await assistant.caller.refusal("workflow.create", document=workflow("a", **wanted))
        assert refused.details["workflow_id"] == "zebra"


def test_a_file_that_wants_a_name_of_another_is_left_out_and_the_server_goes_on(tmp_path: Path) -> None:
    for name in ("first", "second"):
        document = workflow(name, expose={"tool": {"name": "pay"}}, **hook("orders"))
        (tmp_path / f"{name}.json").write_text(json.dumps(document, indent=1), encoding="utf-8")
    with serving(tmp_path, "--workflows", str(tmp_path), PENSTOCK_SECRET_HOOK="x" * 32) as server:
        known = {item["id"] for item in server.call("GET", "workflows")["items"]}
        assert known == {"first"}
        left_out = next(entry for entry in server.log if entry.get("event") == "workflow_quarantined")
        assert left_out["code"] == "NAME_TAKEN"
        assert re.search(r"second\.json:\d+:\d+", left_out["file"])
        assert "the workflow first" in left_out["message"]
