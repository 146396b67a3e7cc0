"""Approvals that nobody decides in time go to others: for held calls and for questions, audited and after a restart."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from penstock.app.gate import hold_choices, open_gate
from penstock.app.penstock import Penstock
from penstock.app.settings.governance import ApprovalSettings, GovernanceSettings
from penstock.app.settings.model import Settings
from penstock.app.settings.rules import settings_problems
from penstock.base.clock import ManualClock
from penstock.base.json import JsonObject
from penstock.governance.holds import Approval, Escalation
from penstock.operations.gate.context import HoldChoices
from tests.scenarios.office import ERASE, Office, in_office
from tests.waiting import SECONDS_MAX, until

HOUR = 3_600_000
AT = 1_767_225_600_000
ESCALATE: JsonObject = {"after": "1h", "to": {"group": "directors"}}
HELD = HoldChoices(
    approval=Approval(groups=("approvers",), escalation=Escalation(after_ms=HOUR, groups=("directors",)))
)
POLICY = """
@id("leads") @outcome("approval") @approvers("leads") @escalate_after("1h") @escalate_to("directors")
forbid (principal, action == Action::"workflow:erase_customer", resource);
"""
ASKS: JsonObject = {
    "penstock": "v1",
    "name": "asks",
    "nodes": [
        {
            "id": "ask",
            "type": "interrupt",
            "message": "Pay?",
            "answer": {"type": "object", "properties": {"approved": {"type": "boolean"}}},
            "approvers": {"group": "approvers", "not_requester": True, "escalate": ESCALATE},
        },
        {"id": "done", "type": "end"},
    ],
}


async def pass_time(office: Office, clock: ManualClock, by_ms: int = HOUR) -> None:
    clock.elapse(by_ms)
    assert office.penstock.driver is not None
    await office.penstock.driver.fire_timers()


@pytest.mark.parametrize("way", ["settings", "document", "policy"])
def test_a_held_call_that_nobody_decides_goes_to_others(tmp_path: Path, way: str) -> None:
    clock = ManualClock(AT)

    async def test(office: Office) -> None:
        await office.hire("boss", "person", "draft:*", "execution:*", "approve:directors")
        if way == "document":
            governed = {"risk": "high", "approvers": {"group": "approvers", "escalate": ESCALATE}}
            changed = {**ERASE, "governance": governed}
            await office.call(office.owner, "workflow.update", workflow_id="erase_customer", document=changed)
        elif way == "policy":
            stored = await office.call(office.owner, "policy.put", policy_id="rules", text=POLICY)
            assert (stored["policies"][0]["escalate_after"], stored["policies"][0]["escalate_to"]) == (
                "1h",
                ["directors"],
            )
        draft_id = await office.propose()
        before = await office.call("boss", "draft.get", draft_id=draft_id)
        assert before["question"]["escalates_at"] == "2026-01-01T01:00:00.000Z"
        assert before["question"]["escalated_at"] is None
        assert (await office.refusal("boss", "draft.approve", draft_id=draft_id)).code == "APPROVER_REQUIRED"
        await pass_time(office, clock)
        seen = await office.call("boss", "draft.get", draft_id=draft_id)
        assert seen["status"] == "waiting"
        assert seen["question"]["escalated_at"] == "2026-01-01T01:00:00.000Z"
        assert seen["approvers"]["groups"] == ["leads" if way == "policy" else "approvers", "directors"]
        made = await office.call("boss", "draft.approve", draft_id=draft_id)
        assert (made["status"], made["result"]) == ("executed", {"erased": "C-7"})
        ended = await office.call("boss", "draft.get", draft_id=draft_id)
        assert [item["at"] for item in ended["escalations"]] == ["2026-01-01T01:00:00.000Z"]
        assert [vote["by"] for vote in ended["votes"]] == [office.people["boss"].id]
        history = await office.call(office.owner, "execution.history", execution_id=draft_id)
        assert [item["name"] for item in history["items"]].count("InterruptEscalated") == 1

    in_office(tmp_path, test, HELD if way == "settings" else None, clock)


def test_an_escalation_is_audited_with_who_may_decide_from_then_on(tmp_path: Path) -> None:
    clock = ManualClock(AT)

    async def test(office: Office) -> None:
        draft_id = await office.propose()
        await pass_time(office, clock)
        # The timers may be looked at by two at once; then one of them comes too late, and that is on record.
        made = {"operation": "execution.escalate", "outcome": "allowed"}
        (told,) = (await office.call(office.owner, "audit.list", **made))["items"]
        assert (told["principal"], told["run_id"]) == ("system:approvals", draft_id)
        assert told["details"]["groups"] == ["approvers", "directors"]

    in_office(tmp_path, test, HELD, clock)


def test_those_who_were_asked_first_still_decide_and_the_requester_never_does(tmp_path: Path) -> None:
    clock = ManualClock(AT)

    async def test(office: Office) -> None:
        await office.call(office.owner, "workflow.create", document=ASKS)
        await office.hire("boss", "person", "workflow:*", "execution:*", "approve:directors")
        runs = [await office.call("boss", "workflow.execute", workflow_id="asks") for _ in range(2)]
        one, two = ({"execution_id": item["execution_id"], "answer": {"approved": True}} for item in runs)
        await pass_time(office, clock)
        status = await office.call("ada", "execution.status", execution_id=one["execution_id"])
        (question,) = status["waiting_for"]["questions"]
        assert question["approvers"] == {"groups": ["approvers", "directors"], "not_requester": True}
        assert (await office.refusal("boss", "execution.answer", **one)).code == "APPROVER_REQUIRED"
        await office.call("ada", "execution.answer", **one)
        await office.hire("chair", "person", "execution:*", "approve:directors")
        await office.call("chair", "execution.answer", **two)
        for item in (one, two):
            found = await office.call("ada", "execution.status", execution_id=item["execution_id"])
            assert found["status"] == "completed"

    in_office(tmp_path, test, None, clock)


def test_an_escalation_that_was_due_while_nothing_ran_happens_after_the_restart_and_is_audited(tmp_path: Path) -> None:
    clock, found = ManualClock(AT), list[str]()

    async def first(office: Office) -> None:
        found.append(await office.propose())

    in_office(tmp_path, first, HELD, clock)
    clock.elapse(2 * HOUR)

    async def second() -> None:
        async with Penstock.open(tmp_path / "penstock.db", clock=clock, governed=True) as penstock:
            assert penstock.driver is not None
            await penstock.driver.fire_timers()  # no gate is open, so nobody could record it
            state = await penstock.host.read(found[0])
            assert state is not None
            assert "escalatedAt" not in str(state)
            async with open_gate(penstock, holds=HELD) as gate:
                office = Office(gate, penstock)

                async def is_escalated() -> bool:
                    seen = await office.call(office.owner, "draft.get", draft_id=found[0])
                    return seen["question"]["escalated_at"] is not None

                await until(is_escalated)
                audited = await office.call(office.owner, "audit.list", operation="execution.escalate")
                assert len(audited["items"]) == 1

    asyncio.run(asyncio.wait_for(second(), SECONDS_MAX))


def test_a_program_without_a_gate_escalates_as_its_document_says(tmp_path: Path) -> None:
    clock = ManualClock(AT)

    async def test() -> None:
        async with Penstock.open(tmp_path / "penstock.db", clock=clock) as penstock:
            await penstock.register(ASKS)
            run = await penstock.start("asks")
            clock.elapse(HOUR)
            assert penstock.driver is not None
            await penstock.driver.fire_timers()
            assert "directors" in str(await run.state())

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))


def test_the_settings_say_when_and_to_whom_or_neither() -> None:
    def settings(**approvals: object) -> Settings:
        return Settings(governance=GovernanceSettings(approvals=ApprovalSettings(**approvals)))  # type: ignore[arg-type]

    whole = settings(escalate_after=timedelta(hours=1), escalate_to=("directors",))
    assert list(settings_problems(whole)) == []
    assert hold_choices(whole.governance).approval.escalation == Escalation(after_ms=HOUR, groups=("directors",))
    assert hold_choices(Settings().governance).approval.escalation is None
    for half in ({"escalate_after": timedelta(hours=1)}, {"escalate_to": ("directors",)}):
        (problem,) = settings_problems(settings(**half))
        assert "belong together" in problem.message
    (late,) = settings_problems(settings(escalate_after=timedelta(days=400), escalate_to=("directors",)))
    assert "must be shorter than" in late.message
