"""Calls that wait for a person: an agent asks for something dangerous, somebody approves it, and it happens once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.base import limits
from penstock.base.clock import ManualClock
from penstock.engine import inputs
from penstock.governance.holds import Approval
from penstock.operations.catalogue.capability import Reply
from penstock.operations.drafts.making import make_held_call
from penstock.operations.gate.authentication import principal_of
from penstock.operations.gate.context import HoldChoices, WriteIntent
from penstock.operations.gate.pipeline import AnsweredCall, RefusedCall
from penstock.runtime.tables.api_keys import list_keys
from penstock.runtime.tables.runs.store import RunStore
from tests.scenarios.office import ERASE, Office, in_office, open_office, staff
from tests.scenarios.test_repeated_calls import DyingWriter
from tests.waiting import SECONDS_MAX, until

LOW = {**ERASE, "name": "greet_customer", "governance": {"risk": "low"}}
TWO = HoldChoices(approval=Approval(groups=("approvers",), count=2))
SEPARATE = HoldChoices(approval=Approval(groups=("approvers",), not_requester=True))


def test_a_dangerous_call_of_an_agent_waits_and_happens_once_it_is_approved(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        reply: Reply[Any] = await office.reply("robot", "workflow:erase_customer", customer="C-7")
        assert reply.status == 202
        draft_id = reply.value.held.draft_id
        assert reply.location == f"/drafts/{draft_id}"
        assert await office.erased() == []
        seen = await office.call("ada", "draft.get", draft_id=draft_id)
        assert seen["status"] == "waiting"
        assert seen["operation"] == "workflow:erase_customer"
        assert seen["requested_by"] == office.people["robot"].id
        made = await office.call("ada", "draft.approve", draft_id=draft_id, digest=seen["digest"])
        assert (made["status"], made["result"]) == ("executed", {"erased": "C-7"})
        assert await office.erased() == ["C-7"]
        assert (await office.refusal("ada", "draft.approve", draft_id=draft_id)).code == "DRAFT_FINAL"

    in_office(tmp_path, test)


def test_people_services_and_harmless_calls_of_agents_do_not_wait(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await office.call(office.owner, "workflow.create", document=LOW)
        await office.hire("shop", "service", "*")
        await office.hire("owner", "person", "*")
        for who, name in (("shop", "erase"), ("owner", "erase"), ("robot", "greet")):
            made = await office.call(who, f"workflow:{name}_customer", customer="C-1")
            assert (made["status"], made["output"]) == ("completed", {"erased": "C-1"})

    in_office(tmp_path, test)


@pytest.mark.parametrize("way", ["tool", "execute", "control", "schedule"])
def test_every_way_to_start_something_dangerous_waits(tmp_path: Path, way: str) -> None:
    ways: dict[str, tuple[str, dict[str, Any]]] = {
        "tool": ("workflow:erase_customer", {"customer": "C-7"}),
        "execute": ("workflow.execute", {"workflow_id": "erase_customer", "input": {"customer": "C-7"}}),
        "control": ("control.workflow_start", {"definition": ERASE, "input": {"customer": "C-7"}}),
        "schedule": (
            "schedule.create",
            {"workflow_id": "erase_customer", "cron": "0 6 * * *", "input": {"customer": "C-7"}},
        ),
    }

    async def test(office: Office) -> None:
        operation, arguments = ways[way]
        held = await office.call("robot", operation, **arguments)
        assert (held["status"], held["held"]["operation"]) == ("waiting_approval", operation)
        assert await office.erased() == []
        made = await office.call("ada", "draft.approve", draft_id=held["held"]["draft_id"])
        assert made["status"] == "executed", made
        if way != "schedule":
            assert await office.erased() == ["C-7"]

    in_office(tmp_path, test)


def test_a_model_that_calls_over_mcp_waits_whatever_its_key_is(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await office.hire("owner", "person", "*")
        over_mcp = {"surface": "mcp"}
        held = await office.call("owner", "workflow:erase_customer", customer="C-7", request=over_mcp)
        assert held["status"] == "waiting_approval"
        draft_id = held["held"]["draft_id"]
        # Neither a model nor an agent decides, nor sees what others proposed; the person behind the key does.
        for who, more, code in (("owner", over_mcp, "PERSON_REQUIRED"), ("robot", {}, "DRAFT_NOT_FOUND")):
            assert (await office.refusal(who, "draft.approve", draft_id=draft_id, request=more)).code == code
        asked = {"execution_id": draft_id, "answer": {"approved": True}}
        assert (await office.refusal("robot", "execution.answer", **asked)).code == "EXECUTION_NOT_FOUND"
        made = await office.call("owner", "draft.approve", draft_id=draft_id)
        assert made["status"] == "executed"

    in_office(tmp_path, test)


def test_whatever_says_so_of_itself_waits_whoever_calls(tmp_path: Path) -> None:
    always = {**ERASE, "name": "always", "governance": {"draft": "always", "approvers": {"group": "finance"}}}
    confirmed = {**ERASE, "name": "confirmed", "governance": {"confirm": True}}
    on_risk = {**ERASE, "name": "on_risk", "governance": {"draft": "on_risk", "risk": "critical"}}

    async def test(office: Office) -> None:
        for document in (always, confirmed, on_risk):
            await office.call(office.owner, "workflow.create", document=document)
        await office.hire("shop", "service", "*")
        await office.hire("clerk", "person", "draft:*", "approve:finance")
        held = await office.call("shop", "workflow:always", customer="C-7")
        draft_id = held["held"]["draft_id"]
        assert (await office.refusal("ada", "draft.approve", draft_id=draft_id)).code == "APPROVER_REQUIRED"
        assert (await office.call("clerk", "draft.approve", draft_id=draft_id))["status"] == "executed"
        assert (await office.call("shop", "workflow:on_risk", customer="C-7"))["status"] == "waiting_approval"
        assert (await office.call("shop", "workflow:confirmed", customer="C-7"))["status"] == "completed"
        assert (await office.call("robot", "workflow:confirmed", customer="C-7"))["status"] == "waiting_approval"

    in_office(tmp_path, test)


def test_the_open_preset_holds_nothing(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        made = await office.call("robot", "workflow:erase_customer", customer="C-7")
        assert made["status"] == "completed"

    in_office(tmp_path, test, HoldChoices(preset="open"))


# --- the approval -------------------------------------------------------------------------------------------------


def test_nothing_is_made_before_everybody_who_has_to_has_agreed(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        draft_id = await office.propose()
        first = await office.call("ada", "draft.approve", draft_id=draft_id)
        assert (first["status"], [vote["by"] for vote in first["votes"]]) == ("waiting", [office.people["ada"].id])
        again = await office.call("ada", "draft.approve", draft_id=draft_id)  # the same vote counts once
        assert (again["status"], len(again["votes"])) == ("waiting", 1)
        assert await office.erased() == []
        assert (await office.call("grace", "draft.approve", draft_id=draft_id))["status"] == "executed"
        assert await office.erased() == ["C-7"]

    in_office(tmp_path, test, TWO)


def test_one_who_declines_ends_it(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        draft_id = await office.propose()
        await office.call("ada", "draft.approve", draft_id=draft_id)
        assert (await office.call("grace", "draft.reject", draft_id=draft_id))["status"] == "rejected"
        assert (await office.refusal("edsger", "draft.approve", draft_id=draft_id)).code == "DRAFT_FINAL"
        assert await office.erased() == []

    in_office(tmp_path, test, TWO)


def test_a_key_that_a_voter_made_is_not_another_person(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        boss = await office.hire("boss", "person", "*")
        await office.hire("second", "person", "draft:*", "approve:approvers", maker=boss)
        draft_id = await office.propose()
        await office.call("boss", "draft.approve", draft_id=draft_id)
        assert (await office.refusal("second", "draft.approve", draft_id=draft_id)).code == "ALREADY_VOTED"

    in_office(tmp_path, test, TWO)


def test_the_requester_its_owner_and_its_delegate_do_not_approve_where_duties_are_separate(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        boss = await office.hire("boss", "person", "*")
        await office.hire("helper", "agent", "*", maker=boss)
        await office.hire("shop", "person", "*")
        await office.hire("puppet", "person", "*", maker=office.people["shop"])
        always = {**ERASE, "name": "always", "governance": {"draft": "always"}}
        await office.call(office.owner, "workflow.create", document=always)
        by_helper = await office.propose("helper")
        assert (await office.refusal("boss", "draft.approve", draft_id=by_helper)).code == "APPROVER_REQUIRED"
        held = await office.call("shop", "workflow:always", customer="C-8")
        by_shop = held["held"]["draft_id"]
        for who in ("shop", "puppet"):
            assert (await office.refusal(who, "draft.approve", draft_id=by_shop)).code == "APPROVER_REQUIRED"
        for draft_id in (by_helper, by_shop):
            assert (await office.call("ada", "draft.approve", draft_id=draft_id))["status"] == "executed"

    in_office(tmp_path, test, SEPARATE)


def test_only_members_of_the_group_approve(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await office.hire("visitor", "person", "draft:*", "execution:*")
        draft_id = await office.propose()
        assert (await office.refusal("visitor", "draft.approve", draft_id=draft_id)).code == "APPROVER_REQUIRED"
        asked = {"execution_id": draft_id, "answer": {"approved": True}}
        assert (await office.refusal("visitor", "execution.answer", **asked)).code == "APPROVER_REQUIRED"
        control = {"execution_id": draft_id, "resume_payload": {"approved": True}}
        refused = await office.refusal(office.people["visitor"], "control.workflow_resume", **control)
        assert refused.code == "APPROVER_REQUIRED"
        assert (await office.call("ada", "execution.answer", **asked))["execution_id"] == draft_id

    in_office(tmp_path, test)


def test_an_approval_of_one_digest_makes_no_other_call(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        one, other = await office.propose(customer="C-1"), await office.propose(customer="C-2")
        digest = (await office.call("ada", "draft.get", draft_id=one))["digest"]
        assert digest != (await office.call("ada", "draft.get", draft_id=other))["digest"]
        assert (await office.refusal("ada", "draft.approve", draft_id=other, digest=digest)).code == "DIGEST_MISMATCH"
        assert await office.erased() == []

    in_office(tmp_path, test)


# --- what changed in between ----------------------------------------------------------------------------------------


def test_a_call_whose_workflow_changed_drifts_ends_and_can_be_proposed_again(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        draft_id = await office.propose()
        changed = {**ERASE, "description": "Now it erases more."}
        await office.call(office.owner, "workflow.update", workflow_id="erase_customer", document=changed)
        refused = await office.refusal("ada", "draft.approve", draft_id=draft_id)
        assert refused.code == "DRAFT_DRIFTED"
        assert (await office.call("ada", "draft.get", draft_id=draft_id))["status"] == "drifted"
        assert (await office.refusal("ada", "draft.reject", draft_id=draft_id)).code == "DRAFT_FINAL"
        assert await office.erased() == []
        assert (await office.refusal("ada", "draft.propose", draft_id=draft_id)).code == "DRAFT_NOT_YOURS"
        again = await office.call("robot", "draft.propose", draft_id=draft_id)
        assert (again["status"], again["id"] != draft_id) == ("waiting", True)
        assert (await office.call("ada", "draft.approve", draft_id=again["id"]))["status"] == "executed"
        assert await office.erased() == ["C-7"]

    in_office(tmp_path, test)


def test_a_change_of_what_a_call_would_delete_voids_its_approval(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        held = await office.call("robot", "workflow.delete", workflow_id="erase_customer")
        changed = {**ERASE, "description": "Somebody works on it."}
        await office.call(office.owner, "workflow.update", workflow_id="erase_customer", document=changed)
        refused = await office.refusal("ada", "draft.approve", draft_id=held["held"]["draft_id"])
        assert refused.code == "DRAFT_DRIFTED"
        assert (await office.call(office.owner, "workflow.get", workflow_id="erase_customer"))["id"] == "erase_customer"

    in_office(tmp_path, test)


def test_a_revoked_key_makes_nothing_even_if_it_is_approved(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        draft_id = await office.propose()
        await office.call(office.owner, "key.revoke", key_id=office.people["robot"].key_id)
        ended = await office.call("ada", "draft.approve", draft_id=draft_id)
        assert (ended["status"], ended["error"]["code"]) == ("failed", "KEY_REVOKED")
        assert await office.erased() == []

    in_office(tmp_path, test)


def test_a_draft_that_nobody_approves_in_time_expires(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        held = await office.call("robot", "workflow:erase_customer", customer="C-7")
        draft_id = held["held"]["draft_id"]
        waits = {"execution_id": draft_id, "wait_seconds": 240, "after_sequence": held["sequence"]}
        seen = await office.call("ada", "execution.wait", **waits)
        assert (seen["status"], seen["error"]["code"]) == ("failed", "DRAFT_EXPIRED")
        assert (await office.call("ada", "draft.get", draft_id=draft_id))["status"] == "expired"
        assert (await office.refusal("ada", "draft.approve", draft_id=draft_id)).code == "DRAFT_FINAL"
        assert await office.erased() == []

    in_office(tmp_path, test, HoldChoices(draft_ms=200))


# --- at most once ---------------------------------------------------------------------------------------------------


def test_two_who_approve_at_once_make_one_call(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        draft_id = await office.propose()
        outcomes = await asyncio.gather(
            *(office.outcome(name, "draft.approve", draft_id=draft_id) for name in ("ada", "grace", "edsger"))
        )
        made = [item for item in outcomes if isinstance(item, AnsweredCall)]
        refused = [item.error.code for item in outcomes if isinstance(item, RefusedCall)]
        assert (len(made), refused) == (1, ["DRAFT_FINAL", "DRAFT_FINAL"])
        assert await office.erased() == ["C-7"]

    in_office(tmp_path, test)


def test_a_held_call_is_neither_forked_nor_settled_by_an_agent(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        draft_id = await office.propose()
        await office.call("ada", "draft.approve", draft_id=draft_id)
        for who, code in (("robot", "PERSON_REQUIRED"), (office.owner, "RETRY_NOT_ALLOWED")):
            assert (await office.refusal(who, "execution.retry", execution_id=draft_id)).code == code
        fork = {"execution_id": draft_id, "at_sequence": 3}
        assert (await office.refusal(office.owner, "execution.fork", **fork)).code == "HELD_CALL_FIXED"
        assert await office.erased() == ["C-7"]

    in_office(tmp_path, test)


def test_a_call_that_waits_survives_a_restart(tmp_path: Path) -> None:
    found: list[str] = []

    async def first(office: Office) -> None:
        found.append(await office.propose())
        await office.call("ada", "draft.get", draft_id=found[0])

    in_office(tmp_path, first)

    async def second() -> None:
        async with open_office(tmp_path) as office:
            made = await office.call(office.owner, "draft.approve", draft_id=found[0])
            assert made["status"] == "executed"
            assert await office.erased() == ["C-7"]

    asyncio.run(asyncio.wait_for(second(), SECONDS_MAX))


def test_the_same_idempotency_key_is_the_same_draft(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        keyed = {"idempotency_key": "k1"}
        one = await office.propose(request=keyed)
        assert await office.propose(request=keyed) == one
        refused = await office.refusal("robot", "workflow:erase_customer", customer="C-8", request=keyed)
        assert refused.code == "IDEMPOTENCY_KEY_REUSED"

    in_office(tmp_path, test)


# --- what is shown and kept -----------------------------------------------------------------------------------------


def test_audit_records_alone_tell_decision_approval_and_execution(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        draft_id = await office.propose()
        digest = (await office.call("ada", "draft.get", draft_id=draft_id))["digest"]
        await office.call("ada", "draft.approve", draft_id=draft_id)
        listed = (await office.call(office.owner, "audit.list", limit=100))["items"]
        told = [item for item in reversed(listed) if item["draft_id"] == draft_id and item["outcome"] != "allowed"]
        assert [(item["outcome"], item["operation"], item["principal"]) for item in told] == [
            ("held", "workflow:erase_customer", office.people["robot"].id),
            ("approved", "draft.approve", office.people["ada"].id),
            ("executed", "workflow:erase_customer", office.people["robot"].id),
        ]
        assert {item["details"]["digest"] for item in told} == {digest}
        assert told[2]["details"]["approved_by"] == [office.people["ada"].id]
        assert told[1]["approval_id"] == told[2]["approval_id"] != ""

    in_office(tmp_path, test)


def test_secret_arguments_are_masked_kept_sealed_and_used(tmp_path: Path) -> None:
    secret = "correct horse battery staple"
    document = {
        **ERASE,
        "name": "store_secret",
        "input": {
            "type": "object",
            "properties": {"customer": {"type": "string"}, "token": {"type": "string", "writeOnly": True}},
        },
        "nodes": [{"id": "done", "type": "end", "output": {"token": "${ .input.token }"}}],
    }

    async def test(office: Office) -> None:
        await office.call(office.owner, "workflow.create", document=document)
        held = await office.call("robot", "workflow:store_secret", customer="C-7", token=secret)
        draft_id = held["held"]["draft_id"]
        for operation, named in (("draft.get", "draft_id"), ("execution.history", "execution_id")):
            assert secret not in str(await office.call(office.owner, operation, **{named: draft_id}))
        made = await office.call("ada", "draft.approve", draft_id=draft_id)
        assert (made["status"], made["result"]) == ("executed", {"token": "***"})

    in_office(tmp_path, test)


def test_the_secret_of_a_key_that_an_agent_may_make_is_not_in_any_history(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        held = await office.call("robot", "key.create", name="more", scopes=["workflow:read"], kind="agent")
        made = await office.call("ada", "draft.approve", draft_id=held["held"]["draft_id"])
        assert (made["status"], made["result"]) == ("executed", {"withheld": True})
        own = await office.call("robot", "draft.get", draft_id=made["id"])
        assert own["result"]["key"]["name"] == "more"
        secret = own["result"]["secret"]
        for who, operation, named in (("ada", "draft.get", "draft_id"), ("ada", "execution.history", "execution_id")):
            assert secret not in str(await office.call(who, operation, **{named: made["id"]}))

    in_office(tmp_path, test)


# --- the strict preset ----------------------------------------------------------------------------------------------

STRICT = HoldChoices(preset="strict")


def test_everything_that_an_agent_changes_is_a_draft_under_strict(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await office.call(office.owner, "workflow.create", document=LOW)
        held = await office.call("robot", "workflow:greet_customer", customer="C-1")
        assert (held["status"], held["held"]["denied_code"]) == ("waiting_approval", "AUTO_EXECUTE_DISABLED")
        assert (await office.call("robot", "workflow.list"))["items"]
        await office.hire("shop", "service", "*")
        assert (await office.call("shop", "workflow:greet_customer", customer="C-1"))["status"] == "completed"

    in_office(tmp_path, test, STRICT)


def test_a_grant_lets_an_agent_act_until_it_ends(tmp_path: Path) -> None:
    clock = ManualClock(1_767_225_600_000)

    async def test(office: Office) -> None:
        await office.call(office.owner, "workflow.create", document=LOW)
        robot = office.people["robot"].id

        async def denied() -> str | None:
            made = await office.call("robot", "workflow:greet_customer", customer="C-1")
            code: str | None = made["held"]["denied_code"] if "held" in made else None
            return code

        granted = {"principal": robot, "expires_in": "1h"}
        await office.call(office.owner, "grant.create", **granted, capabilities=[])
        assert await denied() == "AUTO_EXECUTE_DENIED"  # an empty list allows nothing
        made = await office.call(office.owner, "grant.create", **granted, capabilities=["workflow:greet_customer"])
        assert await denied() is None
        clock.advance(3_600_001)
        assert await denied() == "AUTO_EXECUTE_EXPIRED"
        await office.call(office.owner, "grant.delete", grant_id=made["id"])
        assert await denied() == "AUTO_EXECUTE_DENIED"
        refused = await office.refusal(office.owner, "grant.create", principal=robot, capabilities=[], expires_in="99w")
        assert refused.code == "DURATION_INVALID"
        missing = await office.refusal(office.owner, "grant.create", principal=robot, capabilities=[])
        assert missing.code == "INVALID_ARGUMENTS"

    in_office(tmp_path, test, STRICT, clock)


def test_what_could_do_harm_needs_a_justification_a_key_and_a_preflight_of_exactly_this_call(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await office.call(
            office.owner,
            "grant.create",
            principal=office.people["robot"].id,
            capabilities=["workflow:erase_customer"],
            expires_in="1h",
            high_risk=True,
        )

        async def look(customer: str) -> Any:
            call = {"operation": "workflow:erase_customer", "arguments": {"customer": customer}}
            return await office.call("robot", "preflight.run", **call)

        async def tried(customer: str = "C-7", key: str | None = None, **intent: Any) -> str | None:
            more = {"idempotency_key": key, "intent": WriteIntent(**intent)}
            outcome = await office.outcome("robot", "workflow:erase_customer", customer=customer, request=more)
            if isinstance(outcome, RefusedCall):
                return outcome.error.code
            assert isinstance(outcome.reply, Reply)
            held = outcome.reply.value.held
            return None if held is None else str(held.denied_code)

        seen = await look("C-7")
        assert (seen["would"], seen["risk"], len(seen["digest"])) == ("execute", "high", 64)
        assert seen["impact"]["plan"]["path"] == ["done"]
        assert await tried() == "JUSTIFICATION_REQUIRED"
        assert await tried(justification="they asked") == "IDEMPOTENCY_KEY_REQUIRED"
        assert await tried(justification="they asked", key="a") == "PREFLIGHT_REQUIRED"
        for_other = (await look("C-8"))["preflight_id"]
        full = {"justification": "they asked"}
        assert await tried(**full, key="b", preflight_id=for_other) == "PREFLIGHT_MISMATCH"
        assert await tried(**full, key="c", preflight_id=seen["preflight_id"]) is None
        assert await office.erased() == ["C-7"]
        assert await tried(**full, key="d", preflight_id=seen["preflight_id"]) == "PREFLIGHT_NOT_FOUND"
        assert await office.erased() == ["C-7"]

    in_office(tmp_path, test, STRICT)


def test_a_preflight_is_refused_like_the_call_and_belongs_to_who_made_it(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await office.hire("reader", "agent", "preflight:run", "workflow:read")
        call = {"operation": "workflow.delete", "arguments": {"workflow_id": "erase_customer"}}
        assert (await office.refusal("reader", "preflight.run", **call)).code == "SCOPE_REQUIRED"
        bad = {"operation": "workflow.delete", "arguments": {}}
        assert (await office.refusal("robot", "preflight.run", **bad)).code == "INVALID_ARGUMENTS"
        seen = await office.call("robot", "preflight.run", **call)
        assert (seen["would"], seen["denied_code"]) == ("hold", "AUTO_EXECUTE_DISABLED")
        assert seen["state_witness"]["id"] == "erase_customer"
        assert (await office.call(office.owner, "workflow.get", workflow_id="erase_customer"))["id"] == "erase_customer"
        listed = {"operation": "workflow.list", "arguments": {}}
        assert (await office.refusal("robot", "preflight.run", **listed)).code == "PREFLIGHT_NOT_NEEDED"

    in_office(tmp_path, test, STRICT)


def test_an_agent_cannot_make_something_dangerous_harmless_by_itself(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        harmless = {**ERASE, "governance": {"risk": "low"}}
        held = await office.call("robot", "workflow.update", workflow_id="erase_customer", document=harmless)
        assert held["status"] == "waiting_approval"
        more = {**ERASE, "description": "It says more."}
        held = await office.call("robot", "workflow.update", workflow_id="erase_customer", document=more)
        assert held["held"]["reason"] == "authorship"  # whatever an agent stores is accepted by a person first

    in_office(tmp_path, test)


def test_a_caller_may_ask_for_a_draft_and_commit_it_by_its_digest(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await office.hire("shop", "service", "*")
        wants = {"intent": WriteIntent(wants_draft=True)}
        held = await office.call("shop", "workflow:erase_customer", customer="C-7", request=wants)
        assert held["held"]["reason"] == "requested"
        draft_id, digest = held["held"]["draft_id"], held["held"]["digest"]
        assert (await office.refusal("shop", "draft.commit", draft_id=draft_id, digest="0" * 64)).code == (
            "DIGEST_MISMATCH"
        )
        outcomes = await asyncio.gather(
            *(office.outcome("shop", "draft.commit", draft_id=draft_id, digest=digest) for _ in range(2))
        )
        assert sum(isinstance(item, AnsweredCall) for item in outcomes) == 1
        assert await office.erased() == ["C-7"]
        by_robot = await office.call("robot", "workflow:erase_customer", customer="C-8", request=wants)
        commit = {"draft_id": by_robot["held"]["draft_id"], "digest": by_robot["held"]["digest"]}
        assert (await office.refusal("robot", "draft.commit", **commit)).code == "PERSON_REQUIRED"
        canceled = await office.call("robot", "draft.cancel", draft_id=commit["draft_id"])
        assert canceled["status"] == "canceled"

    in_office(tmp_path, test)


def test_a_workflow_that_runs_a_dangerous_one_as_its_child_waits_as_long(tmp_path: Path) -> None:
    around: dict[str, Any] = {
        "penstock": "v1",
        "name": "around",
        "governance": {"risk": "low"},
        "expose": {"tool": True},
        "nodes": [
            {"id": "child", "type": "subworkflow", "workflow": "erase_customer", "input": {"customer": "C-7"}},
            {"id": "done", "type": "end"},
        ],
    }

    async def test(office: Office) -> None:
        await office.call(office.owner, "workflow.create", document=around)
        for operation, arguments in (("workflow:around", {}), ("workflow.execute", {"workflow_id": "around"})):
            held = await office.call("robot", operation, **arguments)
            assert held["status"] == "waiting_approval"
        assert await office.erased() == []

    in_office(tmp_path, test)


async def crash_while_made(path: Path, die: Callable[[Office], None]) -> str:
    """Approve a call, and let its process die while it is made; return the id of the draft."""
    async with open_office(path) as office:
        await staff(office)
        draft_id = await office.propose()
        die(office)
        await office.call("ada", "draft.approve", draft_id=draft_id, wait_seconds=0)

        async def is_begun() -> bool:
            return bool(office.people.get("died"))

        await until(is_begun)
        return draft_id


@asynccontextmanager
async def after_crash(path: Path) -> AsyncIterator[Office]:
    async with open_office(path) as office:
        for name in ("robot", "ada"):
            page = await list_keys(office.gate.services.platform, tenant=None, limit=100)
            office.people[name] = principal_of(next(row for row in page.rows if row.name == name))
        yield office


async def settled(office: Office, draft_id: str) -> str:
    """How a held call stands once nothing happens by itself any more."""
    told: list[str] = []

    async def is_settled() -> bool:
        told.append((await office.call("ada", "draft.get", draft_id=draft_id))["status"])
        return told[-1] != "approved"

    await until(is_settled)
    return told[-1]


def test_a_call_that_was_approved_and_never_made_is_made_after_a_crash(tmp_path: Path) -> None:
    """The store has no key of it, so it changed nothing: nobody has to decide that."""

    def stuck(office: Office) -> None:
        async def wait(run_id: str) -> Any:
            office.people["died"] = office.owner
            await asyncio.Event().wait()

        office.penstock.held_calls.attach(wait)

    async def test() -> None:
        draft_id = await crash_while_made(tmp_path, stuck)
        async with after_crash(tmp_path) as office:
            assert await settled(office, draft_id) == "executed"
            assert await office.erased() == ["C-7"]

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))


def test_a_call_whose_run_was_started_before_a_crash_is_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "IDEMPOTENCY_IN_FLIGHT_MS", 500)

    def dies_after_commit(office: Office) -> None:
        async def make_and_die(run_id: str) -> Any:
            store = office.penstock.store
            assert isinstance(store, RunStore)
            dying = DyingWriter(store, lives=1)
            making = asyncio.create_task(make_held_call(office.gate, run_id))
            await dying.died.wait()
            office.people["died"] = office.owner
            await asyncio.wait([making])
            await asyncio.Event().wait()

        office.penstock.held_calls.attach(make_and_die)

    async def test() -> None:
        draft_id = await crash_while_made(tmp_path, dies_after_commit)
        async with after_crash(tmp_path) as office:
            assert await settled(office, draft_id) == "executed"
            assert await office.erased() == ["C-7"]

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))


def test_a_call_that_an_older_release_left_in_doubt_waits_for_a_person(tmp_path: Path) -> None:
    def leave_in_doubt(office: Office) -> None:
        async def report(run_id: str) -> Any:
            host = office.gate.services.host
            unknown = inputs.ReportOutcomeUnknown(at=host.clock.now_ms(), node_id="call", visit=1, attempt=1)
            sending = asyncio.create_task(office.penstock.host.send(run_id, unknown))  # which cancels this attempt
            sending.add_done_callback(lambda _: office.people.update(died=office.owner))
            await asyncio.Event().wait()

        office.penstock.held_calls.attach(report)

    async def test() -> None:
        draft_id = await crash_while_made(tmp_path, leave_in_doubt)
        async with after_crash(tmp_path) as office:
            assert await settled(office, draft_id) == "ambiguous"
            assert await office.erased() == []
            assert (await office.refusal("robot", "execution.retry", execution_id=draft_id)).code == "PERSON_REQUIRED"
            report = {"execution_id": draft_id, "node_id": "call", "ok": True, "result": {"result": None}}
            assert (await office.refusal("robot", "execution.submit_activity", **report)).code == "PERSON_REQUIRED"
            await office.call("ada", "execution.retry", execution_id=draft_id)
            await office.call("ada", "execution.wait", execution_id=draft_id, wait_seconds=240)
            assert (await office.call("ada", "draft.get", draft_id=draft_id))["status"] == "executed"
            assert await office.erased() == ["C-7"]

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))


@pytest.mark.parametrize("requirements", [1, 2])
def test_a_policy_that_asks_for_approval_holds_the_calls_of_anybody(tmp_path: Path, requirements: int) -> None:
    policies = """
@id("leads") @outcome("approval") @approvers("leads") @quorum("2")
forbid (principal, action == Action::"workflow:erase_customer", resource) when { context.input.customer == "C-7" };
"""
    if requirements == 2:
        policies += """
@id("finance") @outcome("approval") @approvers("finance")
forbid (principal, action == Action::"workflow:erase_customer", resource);
"""

    async def test(office: Office) -> None:
        await office.call(office.owner, "policy.put", policy_id="rules", text=policies)
        await office.hire("shop", "service", "*")
        for name in ("lead", "leader"):
            await office.hire(name, "person", "draft:*", "approve:leads")
        await office.hire("clerk", "person", "draft:*", "approve:finance")
        held = await office.call("shop", "workflow:erase_customer", customer="C-7")
        assert held["held"]["reason"] == "policy"
        draft_id = held["held"]["draft_id"]
        await office.call("lead", "draft.approve", draft_id=draft_id)
        seen = await office.call("leader", "draft.approve", draft_id=draft_id)
        if requirements == 2:
            assert (seen["status"], seen["approvers"]["group"]) == ("waiting", "finance")
            assert (await office.refusal("lead", "draft.approve", draft_id=draft_id)).code == "APPROVER_REQUIRED"
            seen = await office.call("clerk", "draft.approve", draft_id=draft_id)
        assert seen["status"] == "executed", seen
        assert await office.erased() == ["C-7"]

    in_office(tmp_path, test, HoldChoices(preset="open"))


def test_a_policy_that_changed_voids_an_approval(tmp_path: Path) -> None:
    rule = '@id("nights") forbid (principal is Agent, action == Action::"workflow.delete", resource);'

    async def test(office: Office) -> None:
        await office.call(office.owner, "policy.put", policy_id="rules", text=rule)
        draft_id = await office.propose()
        changed = f'{rule}\n@id("none") forbid (principal, action == Action::"key.create", resource);'
        await office.call(office.owner, "policy.put", policy_id="rules", text=changed)
        assert (await office.refusal("ada", "draft.approve", draft_id=draft_id)).code == "DRAFT_DRIFTED"
        assert await office.erased() == []

    in_office(tmp_path, test)
