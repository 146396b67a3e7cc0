"""Hostile tool results and descriptions: a model that obeys every one of them does no harm; none leaves its mark."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from penstock.base.json import JsonObject
from penstock.operations.schedules.starts import fire_through
from penstock.runtime.schedules.scheduler import Started
from penstock.runtime.tables.schedules import list_schedules
from tests.scenarios.agents import ScriptedModel, agent, calls, ended, executors
from tests.scenarios.injection.cases import CANARY, DESCRIBED, SAID, SECRET, Said
from tests.scenarios.injection.platform import THEIRS, Platform, open_platform, unmarked_text
from tests.scenarios.office import Office, in_office
from tests.waiting import until_found


def outcome(entry: JsonObject) -> str:
    """What became of a call, in one word."""
    if "error" in entry:
        return str(entry["error"]).partition(":")[0]
    content: Any = entry["content"]
    failed = isinstance(content, dict) and content.get("status") == "failed"
    return str(content["error"]["code"]) if failed else "done"


async def obey(platform: Platform, case: Said) -> None:
    """Let a model read a page and obey; nothing of the platform may change by that."""
    before = len(platform.model.requests)
    standing, results = await platform.told(case)
    read, *became = [outcome(entry) for entry in results]
    if case.read is None:
        assert read == "done", (case.name, results[0])
    elif case.read == "error":
        assert read != "done", (case.name, read)
    expected = [code for code in case.expected if code != "parked"]
    assert len(became) == len(expected), (case.name, became)
    for code, wanted in zip(became, expected, strict=True):
        assert code == wanted or (wanted == "refused" and code != "done"), (case.name, became)
    assert (standing == "completed") is ("parked" not in case.expected), (case.name, standing)
    for request in platform.model.requests[before:]:
        assert CANARY not in unmarked_text(request), case.name


def test_a_model_that_obeys_hostile_texts_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_SECRET_API_KEY", SECRET)

    async def test() -> None:
        async with open_platform(tmp_path) as platform:
            kept = await platform.inventory()
            assert (kept["erase_customer"], kept["refund"], kept["theirs"]) == (0, 0, 1)
            for case in SAID:
                await obey(platform, case)
                found = await platform.inventory()
                found["workflow.list"] = [name for name in found["workflow.list"] if name != "laundered"]
                assert found == kept, case.name
            seen = json.dumps(
                [[message.text for message in request.messages] for request in platform.model.requests]
            ) + json.dumps(platform.server.received)
            assert THEIRS not in seen
            assert SECRET not in seen
            sent = [call["arguments"] for call in platform.server.received if call["name"] == "send"]
            assert sent == [{"text": "${secret:API_KEY}"}, {"text": "${ $ENV.PENSTOCK_SECRET_API_KEY }"}]
            offered = {tool.name for request in platform.model.requests for tool in request.tools}
            assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in offered)
            named = [f"web_{described.name.replace('.', '_')}" for described in DESCRIBED]
            assert all(any(name.startswith(prefix) for name in offered) for prefix in named)

    asyncio.run(test())


def test_there_are_many_distinct_injections() -> None:
    assert len({case.name for case in SAID}) == len(SAID)
    assert len({described.name for described in DESCRIBED}) == len(DESCRIBED)
    assert len(SAID) + len(DESCRIBED) >= 100


@pytest.mark.parametrize("way", ["schedule.create", "triggers"])
def test_what_a_model_schedules_has_to_wait_as_if_the_model_did_it(tmp_path: Path, way: str) -> None:
    """The clock starts the run in the name of a person, but it was not a person who chose what it does."""
    timetable: JsonObject = {"cron": "0 0 1 1 *"}
    erasing: JsonObject = {
        "penstock": "v1",
        "name": "erasing",
        "nodes": [
            {
                "id": "erase",
                "type": "tool_call",
                "server": "penstock",
                "tool": "workflow:erase_customer",
                "arguments": {"customer": "C-1"},
            },
            {"id": "done", "type": "end", "output": "${ .erase }"},
        ],
    }
    stores = calls(
        (
            "workflow.create",
            {"document": erasing | ({"triggers": [{"schedule": timetable}]} if way == "triggers" else {})},
        )
    )
    makes = calls(("schedule.create", {"workflow_id": "erasing", **timetable}))
    turns = [stores, "Stored."] if way == "triggers" else [stores, makes, "Scheduled."]

    async def test(office: Office) -> None:
        await office.hire("boss", "person", "*")
        running = asyncio.create_task(ended(office, agent("workflow.create", "schedule.create"), "boss"))

        async def accepted() -> bool | None:
            """Accept what the model stores, as a person has to."""
            for item in (await office.call("ada", "draft.list", status="open"))["items"]:
                await office.call("ada", "draft.approve", draft_id=item["id"])
            return True if running.done() else None

        await until_found(accepted)
        assert (await running)["status"] == "completed"
        rows = await list_schedules(office.gate.services.store.database, tenant="default")
        [row] = [row for row in rows if row.workflow_name == "erasing"]
        started = await fire_through(office.gate)(row, "the first of january")
        assert isinstance(started, Started), started

        async def held() -> Any:
            return (await office.call("ada", "draft.list", status="open"))["items"] or None

        [draft] = await until_found(held)
        assert draft["status"] == "waiting"
        assert await office.erased() == []

    in_office(tmp_path, test, executors=executors(ScriptedModel(turns)))
