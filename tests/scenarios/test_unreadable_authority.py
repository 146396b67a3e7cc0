"""Stored rows that say who may do what: one that cannot be read refuses, and never counts as if it were not there."""

from __future__ import annotations

import pytest

from penstock.base.json import JsonObject
from penstock.governance.policy.source import Policy
from penstock.governance.quotas import TENANT_SUBJECT, QuotaLimits
from penstock.operations.agent_profile.policies import app_policies
from penstock.operations.agent_profile.records import APP_KIND
from penstock.operations.gate.policy_stage import POLICY_KIND, PolicyStage
from penstock.operations.gate.quotas import QUOTA_KIND, QuotaChoices, Quotas
from penstock.operations.permissions.console_sessions import SIGN_OUT_KIND, ended_before_ms, sign_out_id
from penstock.runtime.stores.memory.platform_store import MemoryPlatformStore
from penstock.runtime.system import SystemClock
from tests.conformance.platform_stores import resource

pytestmark = pytest.mark.anyio
APP = "app_1.acme"
SOUND: JsonObject = {"id": APP, "name": "a", "status": "active", "policy": {}}
NOTHING = QuotaLimits(runs_at_once=0, runs_per_day=0, tokens_per_day=0, cost_per_day=0, storage_bytes=0)


async def storing(kind: str, resource_id: str, body: JsonObject) -> MemoryPlatformStore:
    platform = MemoryPlatformStore()
    await platform.put_resource(resource(resource_id, kind=kind, body=body), expected_etag=None)
    return platform


def scope_of(policy: Policy) -> tuple[str, object, object]:
    return policy.effect, policy.body["principal"], policy.body["conditions"]


@pytest.mark.parametrize("body", [{}, {"text": None}, {"text": ""}, {"text": 7}, {"text": "forbid ("}, {"texts": "x"}])
async def test_a_stored_policy_that_cannot_be_read_forbids_everything(body: JsonObject) -> None:
    stage = PolicyStage(await storing(POLICY_KIND, "own", body), SystemClock())
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
async def test_an_app_whose_policy_cannot_be_read_may_do_nothing(body: JsonObject) -> None:
    (policy,) = await app_policies(await storing(APP_KIND, APP, body), "acme")
    effect, principal, conditions = scope_of(policy)
    assert (effect, conditions) == ("forbid", [])
    assert principal == {"op": "in", "entity": {"type": "Group", "id": f"app.{APP}"}}


async def test_an_app_that_can_be_read_is_not_narrowed() -> None:
    assert await app_policies(await storing(APP_KIND, APP, SOUND), "acme") == ()


@pytest.mark.parametrize(
    "body", [{"runs_per_day": "many"}, {"runs_per_day": -1}, {"runs_per_day": True}, {"runs_a_day": 3}, {"tokens": []}]
)
async def test_a_quota_that_cannot_be_read_allows_nothing(body: JsonObject) -> None:
    quotas = Quotas(await storing(QUOTA_KIND, "key:a", body), SystemClock(), QuotaChoices())
    assert await quotas.limits_of("acme", "key:a") == NOTHING
    assert await quotas.limits_of("acme", TENANT_SUBJECT) == QuotaLimits()


@pytest.mark.parametrize("body", [{}, {"before_ms": None}, {"before_ms": "now"}, {"before_ms": True}])
async def test_a_sign_out_that_cannot_be_read_ends_every_session(body: JsonObject) -> None:
    platform = await storing(SIGN_OUT_KIND, sign_out_id("key:a"), body)
    ended = await ended_before_ms(platform, "acme", "key:a")
    assert ended is not None
    assert ended > SystemClock().now_ms()
