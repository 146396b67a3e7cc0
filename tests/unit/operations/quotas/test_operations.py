"""Quotas of tenants and keys: who may set them, and that every way to start a run keeps them."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.governance.quotas import QuotaLimits
from penstock.operations.gate.pipeline import AnsweredCall
from penstock.operations.gate.quotas import QuotaChoices
from penstock.operations.system.health import tenant_metrics
from tests.unit.operations.conftest import Caller, OpenGate

pytestmark = pytest.mark.anyio


def document(name: str, *nodes: dict[str, Any], **more: Any) -> dict[str, Any]:
    done = {"id": "done", "type": "end", "output": "done"}
    return {"penstock": "v1", "name": name, "nodes": [*nodes, done], **more}


WAITS = {"id": "go", "type": "wait", "signal": "go"}
HELLO = document("hello", expose={"tool": True, "prompt": {"run": True}, "resource": {"uri": "shop://hello"}})
PARENT = document("parent", {"id": "child", "type": "subworkflow", "workflow": "hello"})
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "execute": ("workflow.execute", {"workflow_id": "hello"}),
    "tool": ("workflow:hello", {}),
    "prompt": ("prompt:hello", {}),
    "resource": ("resource:hello", {}),
    "control plane": ("control.workflow_start", {"definition": HELLO, "input": {}}),
    "run a schedule": ("schedule.run_now", {"schedule_id": "nightly"}),
    "fork": ("execution.fork", {"execution_id": "known", "at_sequence": 1}),
}


async def stored(owner: Caller) -> None:
    await owner.call("workflow.create", document=HELLO)
    await owner.call("workflow.create", document=PARENT)
    await owner.call("workflow.create", document=document("waits", WAITS))
    await owner.call("workflow.execute", workflow_id="hello", execution_id="known", sync=True)
    await owner.call("schedule.create", schedule_id="nightly", workflow_id="hello", cron="0 3 * * *")


@pytest.mark.parametrize("way", WAYS)
async def test_a_daily_quota_binds_every_way_to_start_a_run(open_caller: OpenGate, way: str) -> None:
    operation, arguments = WAYS[way]
    async with open_caller() as owner:
        await stored(owner)
        await owner.call("quota.set", subject="tenant", runs_per_day=1)
        assert isinstance(await owner.outcome(operation, **arguments), AnsweredCall)
        for other, given in WAYS.values():
            error = await owner.refusal(other, **given)
            assert error.code == "QUOTA_EXCEEDED", other
            assert (error.details["quota"], error.details["of"]) == ("runs_per_day", "tenant")
            assert error.details["resets_at"]
        assert (await owner.call("quota.get", subject="tenant"))["used"]["runs_today"] == 1


async def test_starts_that_no_quota_has_counted_are_not_said_to_be_none(open_caller: OpenGate) -> None:
    async with open_caller() as owner:
        await stored(owner)
        await owner.call("workflow.execute", workflow_id="waits")
        used = (await owner.call("quota.get", subject="tenant"))["used"]
        assert (used["runs_now"], used["runs_today"]) == (1, None)
        used = (await owner.call("quota.get", subject="key:somebody"))["used"]
        assert (used["runs_now"], used["runs_today"]) == (None, None)
        assert "penstock_tenant_runs_today" not in await tenant_metrics(owner.gate.services, "default")
        await owner.call("quota.set", subject="tenant", cost_per_day=5)
        await owner.call("workflow.execute", workflow_id="waits")
        assert (await owner.call("quota.get", subject="tenant"))["used"]["runs_today"] == 1
        assert (await tenant_metrics(owner.gate.services, "default"))["penstock_tenant_runs_today"] == 1


async def test_the_clock_keeps_the_quota_of_the_maker_of_a_schedule(open_caller: OpenGate) -> None:
    async with open_caller() as owner:
        await stored(owner)
        maker = await owner.new_caller("workflow:*", "schedule:*", "execution:*")
        await maker.call("schedule.create", schedule_id="theirs", workflow_id="hello", cron="0 3 * * *")
        subject = (await maker.principal()).id
        await owner.call("quota.set", subject=subject, runs_per_day=1)
        scheduler = owner.gate.services.scheduler
        row = await scheduler.find("theirs")
        assert row is not None
        assert scheduler.fire is not None
        assert not hasattr(await scheduler.fire(row, "tonight"), "code")
        assert getattr(await scheduler.fire(row, "tomorrow"), "code", None) == "QUOTA_EXCEEDED"
        assert (await maker.refusal("workflow.execute", workflow_id="hello")).details["of"] == "key"
        await owner.call("workflow.execute", workflow_id="hello")


async def test_runs_at_once_are_free_again_when_they_end(open_caller: OpenGate) -> None:
    async with open_caller(quotas=QuotaChoices(tenant=QuotaLimits(runs_at_once=2))) as owner:
        await stored(owner)
        for number in range(2):
            await owner.call("workflow.execute", workflow_id="waits", execution_id=f"w{number}")
        error = await owner.refusal("workflow.execute", workflow_id="waits")
        assert error.code == "QUOTA_EXCEEDED"
        assert error.details == {
            "quota": "runs_at_once",
            "of": "tenant",
            "limit": 2,
            "used": 2,
            "retry_after_seconds": 5,
        }
        await owner.call("execution.cancel", execution_id="w0")
        await owner.call("workflow.execute", workflow_id="waits")


async def test_a_run_that_is_under_way_goes_on_above_the_quota_and_so_do_its_children(open_caller: OpenGate) -> None:
    async with open_caller() as owner:
        await stored(owner)
        await owner.call("workflow.execute", workflow_id="waits", execution_id="slow")
        await owner.call("quota.set", subject="tenant", runs_per_day=1)
        parent = await owner.call("workflow.execute", workflow_id="parent", sync=True)
        assert parent["status"] == "completed"
        assert (await owner.refusal("workflow.execute", workflow_id="hello")).code == "QUOTA_EXCEEDED"
        await owner.call("execution.signal", execution_id="slow", name="go")
        assert (await owner.call("execution.wait", execution_id="slow"))["status"] == "completed"


async def test_a_repeated_start_counts_once(open_caller: OpenGate) -> None:
    async with open_caller() as owner:
        await stored(owner)
        await owner.call("quota.set", subject="tenant", runs_per_day=1)
        first = await owner.reply("workflow.execute", workflow_id="hello", execution_id="one", idempotency_key="one")
        again = await owner.reply("workflow.execute", workflow_id="hello", execution_id="one", idempotency_key="one")
        assert first.value.execution_id == again.value["execution_id"]
        assert isinstance(
            await owner.outcome("workflow.execute", workflow_id="hello", execution_id="one"), AnsweredCall
        )


async def test_what_a_model_used_keeps_the_next_run_from_starting(open_caller: OpenGate) -> None:
    asks = {"id": "ask", "type": "step", "handler": "double", "with": {"number": 1}}
    used = {"input_tokens": 90, "output_tokens": 20, "requests": 1, "cost": {"amount": "0.5", "currency": "USD"}}
    async with open_caller() as owner:
        await owner.call("workflow.create", document=document("asks", asks))
        await owner.call("quota.set", subject="tenant", tokens_per_day=100, cost_per_day=2.5)
        await owner.call("workflow.execute", workflow_id="asks", mode="host_mediated", execution_id="first")
        outcome = {"ok": True, "result": 4, "usage": used}
        await owner.call("control.workflow_submit_activity", execution_id="first", node_id="ask", outcome=outcome)
        for subject in ("tenant", (await owner.principal()).id):
            seen = (await owner.call("quota.get", subject=subject))["used"]
            assert (seen["tokens_today"], seen["cost_today"]) == (110, 0.5)
        error = await owner.refusal("workflow.execute", workflow_id="asks")
        assert error.details["quota"] == "tokens_per_day"


async def test_too_much_stored_keeps_runs_from_starting(open_caller: OpenGate) -> None:
    async with open_caller() as owner:
        await stored(owner)
        await owner.call("quota.set", subject="tenant", storage_bytes=1)
        error = await owner.refusal("workflow.execute", workflow_id="hello")
        assert error.details["quota"] == "storage_bytes"
        assert error.details["used"] > 1  # type: ignore[operator]
        await owner.call("quota.set", subject="tenant", storage_bytes=10_000_000)
        await owner.call("workflow.execute", workflow_id="hello")


async def test_only_the_operator_sets_the_quotas_of_a_tenant(open_caller: OpenGate) -> None:
    async with open_caller() as owner:
        admin = await owner.new_caller("*", tenant="acme")
        assert (await admin.refusal("quota.set", subject="tenant", runs_per_day=10**9)).code == "OPERATOR_REQUIRED"
        assert (await admin.refusal("quota.reset", subject="tenant")).code == "OPERATOR_REQUIRED"
        assert (await admin.refusal("quota.get", subject="tenant", tenant="default")).code == "TENANT_DIFFERS"
        await owner.call("quota.set", subject="tenant", tenant="acme", runs_per_day=7)
        seen = await admin.call("quota.get", subject="tenant")
        assert (seen["limits"]["runs_per_day"], seen["changed"]) == (7, True)
        await admin.call("quota.set", subject="key:someone", runs_at_once=3)
        assert {item["subject"] for item in (await admin.call("quota.list"))["items"]} == {"tenant", "key:someone"}
        assert (await owner.call("quota.list"))["items"] == []


async def test_the_settings_hold_unless_they_are_changed_and_null_lifts_a_quota(open_caller: OpenGate) -> None:
    chosen = QuotaChoices(tenant=QuotaLimits(runs_per_day=5, tokens_per_day=6), key=QuotaLimits(runs_at_once=2))
    async with open_caller(quotas=chosen) as owner:
        assert (await owner.call("quota.get", subject="tenant"))["limits"]["runs_per_day"] == 5
        assert (await owner.call("quota.get", subject="key:x"))["limits"]["runs_at_once"] == 2
        changed = await owner.call("quota.set", subject="tenant", runs_per_day=None, cost_per_day=1.25)
        assert changed["limits"] == {
            "runs_at_once": None,
            "runs_per_day": None,
            "tokens_per_day": 6,
            "cost_per_day": 1.25,
            "storage_bytes": None,
        }
        assert (await owner.call("quota.reset", subject="tenant"))["id"] == "tenant"
        assert (await owner.call("quota.get", subject="tenant"))["limits"]["runs_per_day"] == 5
        assert (await owner.refusal("quota.reset", subject="tenant")).code == "QUOTA_NOT_FOUND"


async def started_until_refused(caller: Caller, at_most: int = 20) -> int:
    """How many runs somebody may start before a quota refuses one."""
    for count in range(at_most):
        if not isinstance(await caller.outcome("workflow.execute", workflow_id="hello", sync=True), AnsweredCall):
            return count
    return at_most


async def rotated(caller: Caller) -> Caller:
    """Whoever holds a key, with the one that replaces it."""
    key_id = (await caller.principal()).key_id
    return caller.with_key((await caller.call("key.rotate", key_id=key_id))["secret"])


async def test_a_key_that_replaces_another_goes_on_with_its_quota(open_caller: OpenGate) -> None:
    async with open_caller(quotas=QuotaChoices(key=QuotaLimits(runs_per_day=3))) as owner:
        await stored(owner)
        holder = await owner.new_caller("*", name="holder")
        first = (await holder.principal()).id
        assert await started_until_refused(holder) == 3
        for _ in range(2):
            holder = await rotated(holder)
            assert await started_until_refused(holder) == 0
        used = (await owner.call("quota.get", subject=(await holder.principal()).id))["used"]
        assert (used["runs_today"], used["tokens_today"]) == (3, 0)
        await owner.call("quota.set", subject=(await holder.principal()).id, runs_per_day=5)
        assert [item["subject"] for item in (await owner.call("quota.list"))["items"]] == [first]
        assert await started_until_refused(holder) == 2
        holder = await rotated(holder)
        assert await started_until_refused(holder) == 0
        await owner.call("quota.reset", subject=(await holder.principal()).id)
        assert (await owner.call("quota.list"))["items"] == []


async def test_keys_that_a_key_makes_share_its_quota_unless_they_are_made_for_somebody_else(
    open_caller: OpenGate,
) -> None:
    async with open_caller(quotas=QuotaChoices(key=QuotaLimits(runs_per_day=3))) as owner:
        await stored(owner)
        holder = await owner.new_caller("*", name="holder")
        assert await started_until_refused(await holder.new_caller("workflow:*", "execution:*")) == 3
        assert await started_until_refused(await holder.new_caller("workflow:*", "execution:*")) == 0
        assert await started_until_refused(holder) == 0
        other = await holder.new_caller("workflow:*", "execution:*", subject="machine:reports")
        assert await started_until_refused(other) == 3
        assert await started_until_refused(await rotated(await holder.new_caller("*", subject="machine:other"))) == 3


async def test_what_a_model_used_counts_for_the_first_key_and_for_the_subject(open_caller: OpenGate) -> None:
    asks = {"id": "ask", "type": "step", "handler": "double", "with": {"number": 1}}
    used = {"input_tokens": 90, "output_tokens": 20, "requests": 1, "cost": {"amount": "0.5", "currency": "USD"}}
    async with open_caller() as owner:
        await owner.call("workflow.create", document=document("asks", asks))
        holder = await rotated(await owner.new_caller("*", subject="person:ada"))
        await holder.call("workflow.execute", workflow_id="asks", mode="host_mediated", execution_id="first")
        outcome = {"ok": True, "result": 4, "usage": used}
        await holder.call("control.workflow_submit_activity", execution_id="first", node_id="ask", outcome=outcome)
        for subject in ("tenant", (await holder.principal()).id, "person:ada"):
            seen = (await owner.call("quota.get", subject=subject))["used"]
            assert (seen["tokens_today"], seen["cost_today"]) == (110, 0.5), subject
