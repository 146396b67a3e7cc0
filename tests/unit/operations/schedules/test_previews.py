"""When a schedule would start something: told before it is made, in its time zone, and nothing is stored."""

from __future__ import annotations

import pytest

from tests.unit.operations.conftest import Caller, OpenGate
from tests.unit.operations.running import run


def test_the_next_times_are_told_in_utc_and_in_the_zone(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        found = await caller.call("schedule.preview", cron="30 3 * * 1", timezone="Europe/Berlin", count=3)
        assert len(found["times"]) == 3
        assert all("T03:30:00+0" in item["local"] for item in found["times"])
        assert all(item["at"].endswith(":30:00.000Z") for item in found["times"])
        assert len((await caller.call("schedule.preview", cron="* * * * *"))["times"]) == 5
        assert (await caller.call("schedule.list"))["items"] == []

    run(open_caller, test)


@pytest.mark.parametrize(("member", "text"), [("cron", "61 * * * *"), ("timezone", "Nowhere/Town")])
def test_what_is_wrong_is_told_by_the_member(open_caller: OpenGate, member: str, text: str) -> None:
    async def test(caller: Caller) -> None:
        refused = await caller.refusal("schedule.preview", **{"cron": "* * * * *", member: text})
        assert refused.code == "SCHEDULE_INVALID"
        assert refused.details["errors"] == [{"pointer": f"/{member}", "message": refused.message}]

    run(open_caller, test)
