"""What every store does with tenants: runs and schedules of one are not listed for another."""

import pytest
from msgspec.structs import replace

from penstock.base.errors import Rejected
from penstock.base.ids import ENTROPY_BYTES, run_id_of
from penstock.runtime.ports.runs import RunQuery, StoredRun
from penstock.runtime.tables.runs.store import RunStore
from penstock.runtime.tables.schedules import list_schedules, put_schedule
from tests.conformance.stores import AT, listed, on_every_store, schedule, start, step

TENANTS = ("default", "acme", "other", "Acme", "")


async def fill(store: RunStore, *, count: int = 60) -> None:
    """Runs of several tenants, one after the other."""
    for number in range(count):
        await store.append(
            start(
                f"r_{number:02}",
                tenant=TENANTS[number % 3],
                status=("running", "failed")[number // 3 % 2],
                workflow_name=("refund", "onboarding")[number // 6 % 2],
                labels={"team": ("blue", "green")[number // 12 % 2]},
                created_at=AT + number,
                parent_run_id="parent" if number % 5 == 0 else None,
                started_by=("key:ada", "key:bob", None)[number // 3 % 3],
            )
        )


@on_every_store
async def test_a_run_keeps_its_tenant(store: RunStore) -> None:
    first = start("r_1", tenant="acme")
    await store.append(first)
    assert await store.load("r_1") == StoredRun(first.row, first.records)
    second = step(first, tenant="other", status="failed")
    await store.append(second)
    assert await store.row("r_1") == replace(second.row, tenant="acme")
    assert await listed(store, tenant="acme") == ["r_1"]
    assert await listed(store, tenant="other") == []


@on_every_store
async def test_a_run_of_nobody_in_particular_is_of_the_default_tenant(store: RunStore) -> None:
    await store.append(start("r_1"))
    assert await listed(store, tenant="default") == ["r_1"]
    row = await store.row("r_1")
    assert row is not None
    assert row.tenant == "default"


@on_every_store
async def test_a_listing_of_a_tenant_has_its_runs_and_no_others(store: RunStore) -> None:
    await fill(store)
    everything = [f"r_{number:02}" for number in range(59, -1, -1)]
    assert await listed(store) == everything
    for place, tenant in enumerate(TENANTS[:3]):
        wanted = [run_id for run_id in everything if int(run_id[2:]) % 3 == place]
        for limit in (1, 7, 1_000):
            assert await listed(store, tenant=tenant, limit=limit) == wanted
    for tenant in TENANTS[3:]:
        assert await listed(store, tenant=tenant) == []


QUERIES = [
    RunQuery(statuses=("failed",)),
    RunQuery(statuses=("failed", "running", "unheard of")),
    RunQuery(workflow_name="refund"),
    RunQuery(workflow_name="refund", statuses=("running", "failed")),
    RunQuery(label=("team", "blue")),
    RunQuery(started_by="key:ada"),
    RunQuery(started_by="key:bob", workflow_name="refund"),
    RunQuery(started_by="key:bob", statuses=("running", "failed"), label=("team", "green")),
    RunQuery(started_by="key:nobody"),
    RunQuery(parent_run_id="parent"),
    RunQuery(parent_run_id="parent", statuses=("failed",)),
    RunQuery(text="r_1"),
    RunQuery(text="onboard"),
    RunQuery(text="onboard", workflow_name="refund"),
    RunQuery(text="green onb", statuses=("failed",)),
    RunQuery(created_after=AT + 9, created_before=AT + 40),
    RunQuery(created_after=AT + 9, label=("team", "green"), statuses=("running",)),
    RunQuery(by_update=True),
    RunQuery(by_update=True, workflow_name="refund", statuses=("failed", "running"), updated_after=AT + 9),
]


@on_every_store
async def test_a_tenant_and_other_filters_hold_together(store: RunStore) -> None:
    await fill(store)
    for query in QUERIES:
        everybody = (await store.list_runs(replace(query, limit=1_000))).rows
        for tenant in ("default", "acme", "nobody", None):
            found = (await store.list_runs(replace(query, tenant=tenant, limit=1_000))).rows
            assert found == tuple(row for row in everybody if tenant in (None, row.tenant)), (query, tenant)
            given = {name: getattr(query, name) for name in query.__struct_fields__ if name not in ("cursor", "limit")}
            in_pages = await listed(store, **{**given, "tenant": tenant}, limit=3)
            assert in_pages == [row.run_id for row in found], (query, tenant)


@on_every_store
async def test_a_list_by_update_has_what_moved_last_first_and_counts_what_fits(store: RunStore) -> None:
    for number, moved in enumerate((5, 9, 9, 1)):
        row = start(f"r_{number}", tenant="acme", created_at=AT + number)
        await store.append(replace(row, row=replace(row.row, updated_at=AT + moved)))
    assert await listed(store, tenant="acme", by_update=True, limit=1) == ["r_2", "r_1", "r_0", "r_3"]
    assert await listed(store, tenant="acme", by_update=True, updated_after=AT + 5) == ["r_2", "r_1"]
    page = await store.list_runs(RunQuery(tenant="acme", by_update=True, counted=True, limit=1))
    later = await store.list_runs(
        RunQuery(tenant="acme", by_update=True, counted=True, limit=1, cursor=page.next_cursor)
    )
    assert (page.total, later.total) == (4, 4)
    for cursor in ("", "x", "WzEsInoiXQ", page.next_cursor[:-3] if page.next_cursor else "y"):
        with pytest.raises(Rejected):
            await store.list_runs(RunQuery(tenant="acme", by_update=True, cursor=cursor))


@on_every_store
async def test_very_many_tenants_are_listed_together(store: RunStore) -> None:
    for number in range(250):
        await store.append(start(f"r_{number:03}", tenant=f"t{number}", status=("running", "failed")[number % 2]))
    everything = [f"r_{number:03}" for number in range(249, -1, -1)]
    assert await listed(store, statuses=("running", "failed"), limit=100) == everything
    assert await listed(store, statuses=("failed",), limit=100) == everything[::2]
    assert await listed(store, statuses=("failed",), workflow_name="refund", limit=100) == everything[::2]
    assert await listed(store, statuses=("failed",), tenant="t7") == ["r_007"]


@on_every_store
async def test_an_id_belongs_to_one_run_whatever_the_tenant(store: RunStore) -> None:
    await store.append(start("r_1", tenant="acme"))
    before = await store.load("r_1")
    await store.append(start("r_1", tenant="other", status="failed"))
    assert await store.load("r_1") == before


@on_every_store
async def test_forgotten_runs_are_gone_from_their_tenant(store: RunStore) -> None:
    for tenant in ("acme", "other"):
        await store.append(start(tenant, tenant=tenant, status="completed", terminal=True, labels={"n": "same"}))
    await store.delete_runs(["acme"])
    assert await listed(store, tenant="acme") == []
    assert await listed(store, tenant="acme", text="same") == []
    assert await listed(store, text="same") == ["other"]
    assert await store.delete_ended(before=AT + 9, limit=5) == 1
    assert await listed(store, text="same") == []


@on_every_store
async def test_text_is_found_in_ids_as_callers_of_the_tenant_know_them(store: RunStore) -> None:
    made = run_id_of(AT, b"x" * ENTROPY_BYTES)
    for number, name in enumerate(("order-7", made, f"{made}:charge:1", "other~.order-7")):
        await store.append(start(f"acme~.{name}", tenant="acme", created_at=AT + number))
    await store.append(start("acme~.order-7 of nobody", created_at=AT + 9))
    for text, wanted in {
        "order": ["acme~.order-7 of nobody", "acme~.other~.order-7", "acme~.order-7"],
        "or": ["acme~.order-7"],
        "acme": ["acme~.order-7 of nobody"],
        made: [f"acme~.{made}:charge:1", f"acme~.{made}"],
        f"acme~.{made}": [f"acme~.{made}:charge:1", f"acme~.{made}"],
        "r_": [f"acme~.{made}:charge:1", f"acme~.{made}"],
        "acme~.order-7": ["acme~.order-7 of nobody", "acme~.other~.order-7", "acme~.order-7"],
        "acme~.": ["acme~.order-7 of nobody"],
    }.items():
        assert await listed(store, text=text) == wanted, text


@on_every_store
async def test_schedules_have_a_tenant(store: RunStore) -> None:
    for name, tenant in (("a", "acme"), ("b", "default"), ("c", "acme")):
        await put_schedule(store.database, schedule(name, tenant=tenant))
    assert [row.schedule_id for row in await list_schedules(store.database)] == ["a", "b", "c"]
    assert await list_schedules(store.database, tenant="acme") == (
        schedule("a", tenant="acme"),
        schedule("c", tenant="acme"),
    )
    assert await list_schedules(store.database, tenant="default") == (schedule("b"),)
    assert await list_schedules(store.database, tenant="nobody") == ()
