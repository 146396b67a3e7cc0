"""What every store of runs does with receipts: a change and the answer that tells of it are kept together."""

from __future__ import annotations

import pytest

from penstock.base.errors import Conflict
from penstock.runtime.ports.platform import CallRecord, Claimed, Finished, InFlight
from penstock.runtime.tables.runs.store import RunStore
from penstock.runtime.tables.schedules import delete_schedule, put_schedule
from tests.conformance.databases import DATABASES
from tests.conformance.platform_stores import AT, claim, claimed, run_bounded, told
from tests.conformance.stores import definition, schedule, start
from tests.opened_database import opened_store


async def begin(store: RunStore) -> None:
    """What there is to be deleted."""
    await store.definitions.put(definition(1, name="old"))
    await put_schedule(store.database, schedule("old"))
    await store.append(start("r_1", status="completed", terminal=True))


async def change(store: RunStore, name: str, given: CallRecord) -> object:
    """Make one change."""
    match name:
        case "put_definition":
            return await store.definitions.put(definition(2), expected_hash=None, call=given)
        case "delete_definition":
            return await store.definitions.delete("old", call=given)
        case "put_schedule":
            return await put_schedule(store.database, schedule(), expected=None, call=given)
        case "delete_schedule":
            return await delete_schedule(store.database, "old", call=given)
        case _:
            return await store.delete_runs(["r_1"], call=given)


CHANGES = ("put_definition", "delete_definition", "put_schedule", "delete_schedule", "delete_runs")


@pytest.mark.parametrize("kind", DATABASES)
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_a_store_is_kept_with_its_answer_and_not_without(
    kind: str, name: str, request: pytest.FixtureRequest
) -> None:
    async def test() -> None:
        async with opened_store(RunStore(DATABASES[kind](request))) as store:
            platform = store.database
            await begin(store)
            slow = claim(name)
            assert await claimed(platform, slow) == Claimed()
            faster = claim(name, now=slow.in_flight_until + 1)
            assert await claimed(platform, faster) == Claimed()
            with pytest.raises(Conflict):
                await change(store, name, told(slow, {"value": "slow"}))
            assert isinstance(await claimed(platform, claim(name, now=faster.now + 1)), InFlight)
            await change(store, name, told(faster, {"value": "faster"}))
            found = await claimed(platform, claim(name, now=faster.now + 1))
            assert found == Finished("digest-1", {"value": "faster"})
            # It is made, so that the same change is none any more and keeps nothing.
            other = claim("other", now=AT)
            await claimed(platform, other)
            await change(store, name, told(other, {}))
            assert isinstance(await claimed(platform, other), InFlight)

    run_bounded(test())
