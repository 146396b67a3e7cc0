"""Keys through the gate: what somebody may give, and whose keys they see."""

from __future__ import annotations

import pytest

from penstock.base.scopes import SCOPE_HINT
from tests.unit.operations.conftest import Caller, OpenGate
from tests.unit.operations.running import run


def test_only_the_operator_knows_the_keys_of_other_tenants(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        acme = await caller.new_caller("*", tenant="acme", name="acme's owner")
        ours = await caller.call("key.create", name="ours", scopes=["key:read"])
        assert {item["tenant"] for item in (await caller.call("key.list"))["items"]} == {"default", "acme"}
        assert {item["tenant"] for item in (await acme.call("key.list"))["items"]} == {"acme"}
        named = [ours["key"]["id"]]
        assert [item["name"] for item in (await caller.call("key.list", id=named))["items"]] == ["ours"]
        assert (await acme.call("key.list", id=named))["items"] == []
        assert (await caller.refusal("key.list", id=["\ud800"])).code == "INVALID_ARGUMENTS"
        for operation in ("key.get", "key.revoke", "key.rotate"):
            assert (await acme.refusal(operation, key_id=ours["key"]["id"])).code == "KEY_NOT_FOUND"
        refused = await acme.refusal("key.create", name="more", scopes=["*"], tenant="default")
        assert refused.code == "SCOPE_REQUIRED"
        assert (await acme.call("key.create", name="more", scopes=["*"], tenant="acme"))["key"]["tenant"] == "acme"

    run(open_caller, test)


def test_whoever_has_not_everything_is_no_operator(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        manager = await caller.new_caller("key:*", "execution:*")
        theirs = await caller.call("key.create", name="theirs", scopes=["*"], tenant="acme")
        assert (await manager.refusal("key.revoke", key_id=theirs["key"]["id"])).code == "KEY_NOT_FOUND"
        refused = await manager.refusal("key.create", name="more", scopes=["execution:read"], tenant="acme")
        assert refused.code == "SCOPE_REQUIRED"

    run(open_caller, test)


@pytest.mark.anyio
async def test_a_scope_that_nothing_needs_is_accepted_with_a_warning_and_a_suggestion(open_caller: OpenGate) -> None:
    refund = {
        "penstock": "v1",
        "name": "refund",
        "governance": {"scopes": ["orders.refund"]},
        "nodes": [
            {"id": "ask", "type": "interrupt", "message": "May I?", "answer": {}, "approvers": {"group": "leads"}},
            {"id": "done", "type": "end"},
        ],
    }
    async with open_caller() as caller:
        await caller.call("workflow.create", document=refund)
        needed = ["*", "workflow:run", "workflow:*", "orders.refund", "orders.*", "approve:leads", "approve:*"]
        assert (await caller.call("key.create", name="needed", scopes=needed))["warnings"] == []
        for scope, told in (
            ("orders:refund", "nothing here needs the scope orders:refund; did you mean orders.refund?"),
            ("workflow:rnu", "nothing here needs the scope workflow:rnu; did you mean workflow:run?"),
            ("workflows:*", "nothing here needs the scope workflows:*; did you mean workflow:*?"),
            ("approve:lead", "nothing here needs the scope approve:lead; did you mean approve:leads?"),
            ("weather:read", "nothing here needs the scope weather:read"),
        ):
            made = await caller.reply("key.create", name="other", scopes=[scope], idempotency_key=scope)
            assert made.value.warnings == [told]
            again = await caller.reply("key.create", name="other", scopes=[scope], idempotency_key=scope)
            assert again.value["warnings"] == [told]


@pytest.mark.anyio
@pytest.mark.parametrize("scope", ["a b", "Shop:refund", "shop::refund", "shop:", "sh*p", "a" * 201])
async def test_what_is_no_scope_is_refused_alike_in_keys_and_documents(open_caller: OpenGate, scope: str) -> None:
    document = {
        "penstock": "v1",
        "name": "refund",
        "governance": {"scopes": [scope]},
        "nodes": [{"id": "done", "type": "end"}],
    }
    async with open_caller() as caller:
        refused = await caller.refusal("key.create", name="one", scopes=[scope])
        assert (refused.code, refused.hint) == ("SCOPE_INVALID", SCOPE_HINT)
        (found,) = (await caller.call("workflow.validate", document=document))["findings"]
        assert (found["code"], found["path"], found["hint"]) == ("SCOPE_INVALID", "/governance/scopes/0", SCOPE_HINT)
        assert (await caller.refusal("workflow.create", document=document)).code == "INVALID_DOCUMENT"


@pytest.mark.anyio
async def test_a_scope_of_a_document_that_is_much_like_another_one_is_told_by_validate(open_caller: OpenGate) -> None:
    document = {
        "penstock": "v1",
        "name": "refund",
        "governance": {"scopes": ["workflow:rnu", "shop:refund"]},
        "nodes": [{"id": "done", "type": "end"}],
    }
    async with open_caller() as caller:
        checked = await caller.call("workflow.validate", document=document)
        (found,) = checked["findings"]
        assert (found["code"], found["severity"], found["hint"]) == (
            "SCOPE_UNFAMILIAR",
            "warning",
            "did you mean workflow:run?",
        )
        assert checked["valid"]


def test_a_key_says_what_its_holder_is_and_makes_nothing_above_that(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        agent = await caller.new_caller("*", kind="agent", groups=["support"])
        service = await caller.new_caller("*", groups=["support"])
        made = await service.call("key.create", name="helper", scopes=["*"], kind="agent", groups=["support"])
        assert (made["key"]["kind"], made["key"]["groups"]) == ("agent", ["support"])
        refused = await service.refusal("key.create", name="more", scopes=["workflow:read"], kind="person")
        assert (refused.code, "person" in refused.message) == ("KEY_BEYOND_YOURS", True)
        for wanted in ("person", "service"):  # nobody is asked to approve what cannot be made
            refused = await agent.refusal("key.create", name="more", scopes=["workflow:read"], kind=wanted)
            assert (refused.code, wanted in refused.message) == ("KEY_BEYOND_YOURS", True)
        rotated = await caller.call("key.rotate", key_id=made["key"]["id"])
        assert (rotated["key"]["kind"], rotated["key"]["groups"]) == ("agent", ["support"])

    run(open_caller, test)


def test_nobody_gives_membership_in_a_group_that_they_do_not_have(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        member = await caller.new_caller("key:write", groups=["leads"])
        made = await member.call("key.create", name="same", scopes=["key:write"], groups=["leads"])
        assert made["key"]["groups"] == ["leads"]
        refused = await member.refusal("key.create", name="more", scopes=["key:write"], groups=["leads", "finance"])
        assert (refused.code, "finance" in refused.message) == ("KEY_BEYOND_YOURS", True)

    run(open_caller, test)


def test_the_first_record_of_a_run_names_the_kind_of_who_started_it(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await caller.call(
            "workflow.create", document={"penstock": "v1", "name": "w", "nodes": [{"id": "d", "type": "end"}]}
        )
        agent = await caller.new_caller("*", kind="agent", groups=["support"])
        started = await agent.call("workflow.execute", workflow_id="w", sync=True)
        view = await caller.call("execution.status", execution_id=started["execution_id"])
        assert view["started_by"]["principal_kind"] == "agent"
        history = await caller.call("execution.history", execution_id=started["execution_id"])
        assert history["items"][0]["payload"]["starter"]["groups"] == ["support"]

    run(open_caller, test)
