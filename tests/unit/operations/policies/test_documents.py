"""A tenant's policies: stored only if they are right, in force at once, and only ever narrower."""

from __future__ import annotations

import pytest

from tests.unit.operations.conftest import Caller, OpenGate
from tests.unit.operations.running import run
from tests.unit.rest.conftest import HELLO

NO_AGENTS = (
    '@id("no-agents") @description("agents read nothing")'
    ' forbid (principal is Agent, action == Action::"workflow.get", resource);'
)


def test_a_stored_policy_holds_at_once_and_is_gone_with_its_document(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        agent = await caller.new_caller("workflow:*", kind="agent")
        stored = await caller.call("policy.put", policy_id="agents", text=NO_AGENTS)
        assert [item["id"] for item in stored["policies"]] == ["no-agents"]
        assert stored["problems"] == []
        refused = await agent.refusal("workflow.get", workflow_id="hello")
        assert (refused.code, refused.details) == ("POLICY_DENIED", {})
        assert "no-agents" not in refused.message
        assert (await caller.refusal("workflow.get", workflow_id="hello")).code == "WORKFLOW_NOT_FOUND"
        assert (await caller.call("policy.delete", policy_id="agents"))["deleted"]
        assert (await agent.refusal("workflow.get", workflow_id="hello")).code == "WORKFLOW_NOT_FOUND"

    run(open_caller, test)


def test_whoever_may_read_policies_learns_which_one_refuses(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        agent = await caller.new_caller("workflow:*", "policy:read", kind="agent")
        await caller.call("policy.put", policy_id="agents", text=NO_AGENTS)
        refused = await agent.refusal("workflow.get", workflow_id="hello")
        assert refused.details == {"policies": ["no-agents"], "reasons": ["agents read nothing"]}
        assert "agents read nothing" in refused.message

    run(open_caller, test)


def test_policies_of_one_tenant_mean_nothing_to_another(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        acme = await caller.new_caller("*", tenant="acme", kind="person")
        await acme.call("policy.put", policy_id="all", text='@id("x") forbid (principal, action, resource);')
        assert (await acme.refusal("workflow.list")).code == "POLICY_DENIED"
        assert (await caller.call("workflow.list"))["items"]
        # Nobody locks their own tenant out of its policies.
        assert [item["id"] for item in (await acme.call("policy.list"))["items"]] == ["all"]
        await acme.call("policy.delete", policy_id="all")
        assert (await acme.call("workflow.list"))["items"] == []

    run(open_caller, test)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('@id("x") permit (principal, action, resource);', "only narrow"),
        ("forbid (principal, action, resource);", "has no @id"),
        ('@id("x") forbid (principal, action, resource) when { principal.nme == "x" };', "attribute `nme`"),
        ('@id("taken") forbid (principal, action, resource);', "has a policy with this id already"),
    ],
)
def test_a_mistake_is_refused_with_its_place(open_caller: OpenGate, text: str, told: str) -> None:
    async def test(caller: Caller) -> None:
        await caller.call(
            "policy.put", policy_id="first", text='@id("taken") forbid (principal is Agent, action, resource);'
        )
        refused = await caller.refusal("policy.put", policy_id="second", text=text)
        assert refused.code == "POLICY_INVALID"
        assert told in refused.message
        assert refused.message.startswith("second:1")
        assert [item["id"] for item in (await caller.call("policy.list"))["items"]] == ["first"]
        checked = await caller.call("policy.check", text=text)
        assert checked["ok"] is ("taken" in text)

    run(open_caller, test)


def test_a_tool_that_is_not_there_yet_is_a_warning(open_caller: OpenGate) -> None:
    text = '@id("x") forbid (principal, action == Action::"workflow:hello", resource);'

    async def test(caller: Caller) -> None:
        stored = await caller.call("policy.put", policy_id="early", text=text)
        assert [item["severity"] for item in stored["problems"]] == ["warning"]
        await caller.call("workflow.create", document=HELLO)
        assert (await caller.refusal("workflow.execute", workflow_id="hello")).code == "POLICY_DENIED"
        assert (await caller.call("policy.put", policy_id="early", text=text))["problems"] == []

    run(open_caller, test)


def test_watching_instead_of_enforcing_needs_a_right_of_its_own(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        keeper = await caller.new_caller("policy:read", "policy:write", kind="person")
        watched = NO_AGENTS.replace("forbid", '@mode("shadow") forbid')
        await keeper.call("policy.put", policy_id="agents", text=NO_AGENTS)
        refused = await keeper.refusal("policy.put", policy_id="agents", text=watched)
        assert (refused.code, refused.details) == ("SCOPE_REQUIRED", {"scope": "policy:shadow"})
        switcher = await caller.new_caller("policy:write", "policy:shadow", kind="person")
        await switcher.call("policy.put", policy_id="agents", text=watched)
        (record,) = (
            await caller.call("audit.list", operation="policy.put", principal=(await switcher.principal()).id)
        )["items"]
        assert record["details"]["switched"] == ["no-agents"]
        agent = await caller.new_caller("workflow:*", kind="agent")
        assert (await agent.refusal("workflow.get", workflow_id="hello")).code == "WORKFLOW_NOT_FOUND"
        recorded = (await caller.call("audit.list", operation="workflow.get"))["items"][0]
        assert list(recorded["reasons"]) == ["scopes-decide", "shadow forbidden: no-agents"]

    run(open_caller, test)


def test_an_outdated_change_is_refused(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        first = await caller.call("policy.put", policy_id="agents", text=NO_AGENTS)
        await caller.call("policy.put", policy_id="agents", text=NO_AGENTS + "\n")
        refused = await caller.refusal("policy.put", policy_id="agents", text=NO_AGENTS, if_match=first["etag"])
        assert refused.code == "PRECONDITION_FAILED"
        refused = await caller.refusal("policy.delete", policy_id="agents", if_match=first["etag"])
        assert refused.code == "PRECONDITION_FAILED"

    run(open_caller, test)


def test_earlier_calls_are_counted_for_each_principal(open_caller: OpenGate) -> None:
    text = (
        '@id("often") @history("started: count of workflow:hello by principal within 1h")'
        ' forbid (principal, action == Action::"workflow:hello", resource) when { context.history.started > 2 };'
    )

    async def test(caller: Caller) -> None:
        await caller.call("workflow.create", document={**HELLO, "expose": {"tool": True}})
        await caller.call("policy.put", policy_id="often", text=text)
        one, other = await caller.new_caller("workflow:*"), await caller.new_caller("workflow:*")
        for _ in range(2):
            await one.call("workflow:hello")
        assert (await one.refusal("workflow:hello")).code == "POLICY_DENIED"
        assert (await one.refusal("workflow:hello")).code == "POLICY_DENIED"
        await other.call("workflow:hello")

    run(open_caller, test)


def test_a_policy_may_let_a_call_wait_for_people(open_caller: OpenGate) -> None:
    text = (
        '@id("ask") @outcome("approval") @approvers("leads")'
        ' forbid (principal, action == Action::"workflow:hello", resource);'
    )

    async def test(caller: Caller) -> None:
        await caller.call("workflow.create", document={**HELLO, "expose": {"tool": True}})
        await caller.call("policy.put", policy_id="ask", text=text)
        somebody = await caller.new_caller("workflow:*")
        held = await somebody.reply("workflow:hello")
        assert held.status == 202
        assert (await caller.call("audit.list", operation="workflow:hello"))["items"][0]["outcome"] == "held"

    run(open_caller, test)
