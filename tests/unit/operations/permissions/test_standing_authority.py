"""Schedules and webhooks that were made with a token act with its authority: never with more, and not for ever."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.app.gate import local_owner, open_gate
from penstock.app.penstock import Penstock
from penstock.base.errors import Denied
from penstock.base.json import JsonObject, JsonValue
from penstock.operations.gate.context import Credentials, GateLimits, Principal, ServerParts
from penstock.operations.permissions import standing_authority
from penstock.operations.permissions.makers import authority_of_schedule, rights_of_maker, trigger_scopes
from penstock.runtime.tables.resources import put_resource
from tests.conformance.platform_stores import resource
from tests.issuers import Issuer, IssuerDirectory
from tests.unit.operations.conftest import Caller

pytestmark = pytest.mark.anyio

ISSUER = Issuer()
SCOPES = "workflow:read workflow:run workflow:write schedule:read schedule:write execution:read shop:refund"
REPORT = {
    "penstock": "v1",
    "name": "report",
    "governance": {"scopes": ["shop:refund"]},
    "nodes": [{"id": "done", "type": "end"}],
}
HOOKED = {**REPORT, "triggers": [{"schedule": {"cron": "0 3 * * *"}}]}


@asynccontextmanager
async def opened(folder: Path, **limits: Any) -> AsyncIterator[Caller]:
    server = ServerParts(tokens=IssuerDirectory([ISSUER]).choices())
    async with (
        Penstock.open(folder / "penstock.db") as penstock,
        open_gate(penstock, server=server, chosen=GateLimits(**limits)) as gate,
    ):
        yield Caller(gate, local_owner(), penstock)


def with_token(caller: Caller, **claims: Any) -> Caller:
    return Caller(caller.gate, Credentials(bearer=ISSUER.token(**{"scope": SCOPES, **claims})), caller.penstock)


async def authority(caller: Caller, schedule_id: str) -> tuple[str | None, JsonValue]:
    row = await caller.gate.services.scheduler.find(schedule_id)
    assert row is not None
    return str(row.spec["made_by"]), await authority_of_schedule(caller.gate.services, row)


async def maker(caller: Caller, schedule_id: str) -> Principal:
    name, kept = await authority(caller, schedule_id)
    return await rights_of_maker(caller.gate.services, name, "default", authority=kept)


async def test_a_schedule_acts_with_the_authority_of_the_token_that_made_it(tmp_path: Path) -> None:
    async with opened(tmp_path) as owner:
        await owner.call("workflow.create", document=REPORT)
        ada = with_token(owner, groups=["finance"])
        await ada.call("schedule.create", workflow_id="report", cron="0 3 * * *", schedule_id="nightly")
        found = await maker(owner, "nightly")
        assert (found.id, found.kind) == ("token:company:ada", "person")
        assert found.scopes == frozenset(SCOPES.split())
        assert found.groups == {"company.finance"}
        # A wider token of the same subject does not widen what a narrower one made.
        await with_token(owner, scope=f"{SCOPES} key:write").call("workflow.list")
        assert (await maker(owner, "nightly")).scopes == frozenset(SCOPES.split())


async def test_whoever_changes_a_schedule_becomes_its_maker(tmp_path: Path) -> None:
    async with opened(tmp_path) as owner:
        await owner.call("workflow.create", document=REPORT)
        ada = with_token(owner)
        await ada.call("schedule.create", workflow_id="report", cron="0 3 * * *", schedule_id="nightly")
        key = await owner.new_caller("*")
        await key.call("schedule.update", schedule_id="nightly", cron="0 4 * * *")
        name, kept = await authority(owner, "nightly")
        assert (name or "").startswith("key:")
        assert kept is None


async def test_a_revoked_subject_starts_nothing_any_more(tmp_path: Path) -> None:
    async with opened(tmp_path) as owner:
        await owner.call("workflow.create", document=REPORT)
        await with_token(owner).call("schedule.create", workflow_id="report", cron="0 3 * * *", schedule_id="nightly")
        await owner.call("token.revoke", issuer="company", subject="ada")
        with pytest.raises(Denied, match="TOKEN_REVOKED"):
            await maker(owner, "nightly")


async def test_authority_ends_when_its_time_is_over_or_its_issuer_is_gone(tmp_path: Path) -> None:
    async with opened(tmp_path, standing_authority_ms=-1) as owner:
        await owner.call("workflow.create", document=REPORT)
        await with_token(owner).call("schedule.create", workflow_id="report", cron="0 3 * * *", schedule_id="nightly")
        with pytest.raises(Denied, match="AUTHORITY_EXPIRED"):
            await maker(owner, "nightly")
        fresh = await authority(owner, "nightly")
        assert isinstance(fresh[1], dict)
        kept = {**fresh[1], "until": 2**53}
        found = await rights_of_maker(owner.gate.services, fresh[0], "default", authority=kept)
        assert found.id == "token:company:ada"
        with pytest.raises(Denied, match="SCHEDULE_MAKER_UNKNOWN"):
            await rights_of_maker(owner.gate.services, "token:company:eve", "default", authority=kept)
    async with (
        Penstock.open(tmp_path / "penstock.db") as penstock,
        open_gate(penstock) as gate,
    ):
        with pytest.raises(Denied, match="TOKEN_REVOKED"):
            await rights_of_maker(gate.services, fresh[0], "default", authority=kept)


async def test_triggers_act_with_the_authority_of_the_token_that_stored_the_workflow(tmp_path: Path) -> None:
    async with opened(tmp_path) as owner:
        await with_token(owner).call("workflow.create", document=HOOKED)
        services = owner.gate.services
        row = await services.store.definitions.find_named("report", tenant="default")
        assert row is not None
        assert await trigger_scopes(services, row, starts=True) == {"workflow:run", "shop:refund"}
        await owner.call("token.revoke", issuer="company", subject="ada")
        with pytest.raises(Denied, match="TOKEN_REVOKED"):
            await trigger_scopes(services, row, starts=True)


@pytest.mark.parametrize(("body", "by_model"), [({}, True), ({"by_model": "no"}, True), ({"by_model": False}, False)])
async def test_a_damaged_note_about_who_stored_a_workflow_counts_as_that_of_a_model(
    body: JsonObject, by_model: bool, tmp_path: Path
) -> None:
    async with opened(tmp_path) as owner:
        services = owner.gate.services
        await owner.call("workflow.create", document=HOOKED)
        row = await services.store.definitions.find_named("report", tenant="default")
        assert row is not None
        assert not await standing_authority.stored_by_model(services, row)
        note = sha256(msgspec.json.encode([row.created_by, row.name, row.hash])).hexdigest()[:32]
        stored = resource(note, tenant="default", kind="stored_by_model", body=body)
        await put_resource(services.platform, stored, expected_etag=None)
        assert await standing_authority.stored_by_model(services, row) is by_model
