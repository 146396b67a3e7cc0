"""Stored rows that say who may do what: one that cannot be read refuses, and never counts as if it were not there."""

from __future__ import annotations

import pytest

from penstock.base.errors import CorruptHistory
from penstock.base.json import JsonObject
from penstock.governance.policy.source import Policy
from penstock.governance.quotas import TENANT_SUBJECT, QuotaLimits
from penstock.operations.agent_profile.policies import app_policies
from penstock.operations.agent_profile.records import APP_KIND
from penstock.operations.audit.checkpoints import CHECKPOINT_KIND, checkpoint_rows
from penstock.operations.audit.holds import audit_holds
from penstock.operations.gate.policy_stage import POLICY_KIND, PolicyStage
from penstock.operations.gate.quotas import QUOTA_KIND, QuotaChoices, Quotas
from penstock.operations.permissions.console_sessions import SIGN_OUT_KIND, ended_before_ms, sign_out_id
from penstock.operations.stored_queries.definitions import definition_of
from penstock.runtime.ports.database import Database
from penstock.runtime.system import SystemClock
from penstock.runtime.tables.resources import put_resource
from penstock.runtime.upstreams.refusals import REFUSALS
from penstock.runtime.upstreams.tool_registry import UpstreamToolRegistry
from penstock.runtime.upstreams.tools import ImportRules, UpstreamTool, tool_hash
from penstock.runtime.webhooks.endpoints import endpoint_of
from tests.conformance.platform_stores import resource
from tests.opened_database import database_fixture  # noqa: F401

pytestmark = pytest.mark.anyio
APP = "app_1.acme"
SOUND: JsonObject = {"id": APP, "name": "a", "status": "active", "policy": {}}
NOTHING = QuotaLimits(runs_at_once=0, runs_per_day=0, tokens_per_day=0, cost_per_day=0, storage_bytes=0)


async def storing(database: Database, kind: str, resource_id: str, body: JsonObject) -> Database:
    await put_resource(database, resource(resource_id, kind=kind, body=body), expected_etag=None)
    return database


def scope_of(policy: Policy) -> tuple[str, object, object]:
    return policy.effect, policy.body["principal"], policy.body["conditions"]


@pytest.mark.parametrize("body", [{}, {"text": None}, {"text": ""}, {"text": 7}, {"text": "forbid ("}, {"texts": "x"}])
async def test_a_stored_policy_that_cannot_be_read_forbids_everything(body: JsonObject, database: Database) -> None:
    stage = PolicyStage(await storing(database, POLICY_KIND, "own", body), SystemClock())
    (policy,) = await stage.stored("acme")
    assert scope_of(policy) == ("forbid", {"op": "All"}, [])
    assert await stage.of("acme") is not None


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"id": APP, "name": "a", "status": "active"},
        {"id": APP, "name": "a", "policy": {}},
        {**SOUND, "policy": None},
        {**SOUND, "status": "sleeping"},
        {**SOUND, "policy": {"network": {"allowed_ips": "10.0.0.1"}}},
        {**SOUND, "policy": {"network": {"allowed_ips": ['10.0.0.1") || true || ip("']}}},
        {**SOUND, "policy": {"network": {"allowed_ips": ["nowhere"]}}},
    ],
)
async def test_an_app_whose_policy_cannot_be_read_may_do_nothing(body: JsonObject, database: Database) -> None:
    (policy,) = await app_policies(await storing(database, APP_KIND, APP, body), "acme")
    effect, principal, conditions = scope_of(policy)
    assert (effect, conditions) == ("forbid", [])
    assert principal == {"op": "in", "entity": {"type": "Group", "id": f"app.{APP}"}}


async def test_an_app_that_can_be_read_is_not_narrowed(database: Database) -> None:
    assert await app_policies(await storing(database, APP_KIND, APP, SOUND), "acme") == ()


@pytest.mark.parametrize(
    "body", [{"runs_per_day": "many"}, {"runs_per_day": -1}, {"runs_per_day": True}, {"runs_a_day": 3}, {"tokens": []}]
)
async def test_a_quota_that_cannot_be_read_allows_nothing(body: JsonObject, database: Database) -> None:
    quotas = Quotas(await storing(database, QUOTA_KIND, "key:a", body), SystemClock(), QuotaChoices())
    assert await quotas.limits_of("acme", "key:a") == NOTHING
    assert await quotas.limits_of("acme", TENANT_SUBJECT) == QuotaLimits()


@pytest.mark.parametrize("body", [{}, {"before_ms": None}, {"before_ms": "now"}, {"before_ms": True}])
async def test_a_sign_out_that_cannot_be_read_ends_every_session(body: JsonObject, database: Database) -> None:
    platform = await storing(database, SIGN_OUT_KIND, sign_out_id("key:a"), body)
    ended = await ended_before_ms(platform, "acme", "key:a")
    assert ended is not None
    assert ended > SystemClock().now_ms()


TOOL = UpstreamTool(name="pay", description="Pays.")
PIN: JsonObject = {"server": "shop", "hash": tool_hash(TOOL), "tool": {"name": "pay", "description": "Pays."}}


async def reviewed(platform: Database, *, listed: bool = True) -> UpstreamToolRegistry:
    """A registry whose settings accept tools by themselves, when they are first seen."""
    rules = ImportRules(prefix="shop_", tools=("*",), accept="first", tenants=("acme",))
    registry = UpstreamToolRegistry(platform=platform, clock=SystemClock(), rules={"shop": rules})
    if listed:
        await registry.tools_listed("shop", (TOOL,))
    return registry


@pytest.mark.parametrize(
    "body",
    [{}, {"server": "shop", "tool": "pay"}, {"server": "shop", "tool": "pay", "hash": None}, {"withdrawn": "yes"}],
)
async def test_a_refusal_of_a_tool_that_cannot_be_read_refuses_the_tool(body: JsonObject, database: Database) -> None:
    registry = await reviewed(await storing(database, REFUSALS, "shop/pay", body))
    (review,) = await registry.tool_reviews("acme", "shop")
    assert review.status == "refused"
    assert await registry.accepted_by_settings("acme", "shop") == []


@pytest.mark.parametrize("listed", [True, False], ids=["listed", "not listed"])
@pytest.mark.parametrize(
    "body", [{}, {**PIN, "tool": None}, {**PIN, "tool": {"name": 7}}, {**PIN, "hash": None}, {**PIN, "revoked": 1}]
)
async def test_a_tool_whose_acceptance_cannot_be_read_is_not_called(
    body: JsonObject, database: Database, *, listed: bool
) -> None:
    registry = await reviewed(await storing(database, "upstream_tool", "shop/pay", body), listed=listed)
    assert await registry.refusal("acme", "shop", "pay") is not None
    assert [item.status for item in await registry.tool_reviews("acme", "shop")] == ["changed" if listed else "gone"]
    assert await registry.accepted_by_settings("acme", "shop") == []


async def test_a_tool_whose_acceptance_can_be_read_is_called(database: Database) -> None:
    registry = await reviewed(await storing(database, "upstream_tool", "shop/pay", PIN))
    assert await registry.refusal("acme", "shop", "pay") is None


@pytest.mark.parametrize("body", [{}, {"tools": 7}, {"tools": [{"name": None}]}])
async def test_a_listing_that_cannot_be_read_counts_as_none(body: JsonObject, database: Database) -> None:
    row = resource("shop", kind="upstream_listing", body=body, tenant="-upstream")
    await put_resource(database, row, expected_etag=None)
    registry = await reviewed(database, listed=False)
    assert await registry.tool_reviews("acme", "shop") == []


@pytest.mark.parametrize("body", [{}, {"hold_id": "h"}, {"hold_id": "h", "reason": "r", "since": "yesterday"}])
async def test_a_legal_hold_that_cannot_be_read_holds_everything(body: JsonObject, database: Database) -> None:
    (hold,) = await audit_holds(await storing(database, "audit_hold", "h", body), "acme")
    assert (hold.hold_id, hold.subject, hold.principal, hold.since, hold.until) == ("h", None, None, None, None)


async def test_stored_definitions_and_evidence_that_cannot_be_read_are_named(database: Database) -> None:
    with pytest.raises(CorruptHistory, match="graph crm"):
        definition_of(resource("crm", kind="graph", body={"protected_branches": 7}))
    with pytest.raises(CorruptHistory, match="webhook"):
        endpoint_of(resource("hook", kind="webhook", body={"url": 7}))
    with pytest.raises(CorruptHistory, match=CHECKPOINT_KIND):
        await checkpoint_rows(await storing(database, CHECKPOINT_KIND, "7", {"size": "many"}), "acme", limit=5)
