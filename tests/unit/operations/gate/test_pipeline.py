"""The gate, stage by stage, through real operations on a real file."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from penstock.operations.catalogue.capability import Reply
from penstock.operations.gate.context import Credentials
from penstock.operations.gate.pipeline import AnsweredCall
from tests.unit.operations.conftest import Caller, OpenGate

GREET: dict[str, Any] = {
    "penstock": "v1",
    "name": "greet",
    "input": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
    "nodes": [{"id": "greeting", "type": "end", "output": {"text": "${ .input.name }"}}],
}


def run(open_caller: OpenGate, test: Callable[[Caller], Awaitable[None]], **choices: Any) -> None:
    async def body() -> None:
        async with open_caller(**choices) as caller:
            await test(caller)

    asyncio.run(body())


@pytest.mark.parametrize("bearer", [None, "", "nonsense", "pen_aaaaaaaaaaaa_" + "a" * 43])
def test_without_a_valid_key_there_is_one_and_the_same_answer(open_caller: OpenGate, bearer: str | None) -> None:
    async def test(caller: Caller) -> None:
        stranger = Caller(caller.gate, Credentials(bearer=bearer), caller.penstock)
        error = await stranger.refusal("workflow.list")
        assert error.code == "UNAUTHENTICATED"

    run(open_caller, test)


def test_a_wrong_secret_under_a_known_id_says_no_more_than_an_unknown_id(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        made = await caller.call("key.create", name="k", scopes=["*"])
        key_id = made["key"]["id"]
        wrong = await caller.with_key(f"pen_{key_id}_" + "A" * 43).refusal("system.info")
        unknown = await caller.with_key("pen_zzzzzzzzzzzz_" + "A" * 43).refusal("system.info")
        assert (wrong.code, wrong.message, wrong.hint) == (unknown.code, unknown.message, unknown.hint)

    run(open_caller, test)


def test_a_revoked_key_fails_on_the_very_next_call(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        holder = await caller.new_caller("workflow:read")
        assert (await holder.call("workflow.list"))["items"] == []
        key_id = (await caller.call("key.list"))["items"][0]["id"]
        await caller.call("key.revoke", key_id=key_id)
        assert (await holder.refusal("workflow.list")).code == "KEY_REVOKED"

    run(open_caller, test)


def test_a_missing_scope_is_named(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        reader = await caller.new_caller("workflow:read")
        error = await reader.refusal("workflow.create", document=GREET)
        assert error.code == "SCOPE_REQUIRED"
        assert error.details["scope"] == "workflow:write"
        # Nothing is said about arguments to somebody who may not call at all.
        assert (await reader.refusal("workflow.create", nonsense=1)).code == "SCOPE_REQUIRED"

    run(open_caller, test)


def test_a_key_cannot_give_what_it_does_not_have(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        holder = await caller.new_caller("key:*", "workflow:read")
        assert (await holder.refusal("key.create", name="more", scopes=["*"])).code == "SCOPE_REQUIRED"
        assert (await holder.refusal("key.create", name="more", scopes=["audit:read"])).code == "SCOPE_REQUIRED"
        other = await holder.refusal("key.create", name="more", scopes=["workflow:read"], tenant="elsewhere")
        assert other.code == "SCOPE_REQUIRED"
        assert (await holder.call("key.create", name="less", scopes=["workflow:read"]))["key"]["name"] == "less"

    run(open_caller, test)


def test_an_unknown_operation_comes_with_a_suggestion(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        error = await caller.refusal("workflow.lists")
        assert error.code == "OPERATION_NOT_FOUND"
        assert "workflow.list" in (error.hint or "")

    run(open_caller, test)


def test_every_violation_of_the_arguments_is_told_at_once(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        error = await caller.refusal("workflow.list", limit=0, cursor=7, what=1)
        assert error.code == "INVALID_ARGUMENTS"
        pointers = {item["pointer"] for item in error.details["errors"]}  # type: ignore[union-attr,index,call-overload]
        assert pointers >= {"/limit", "/cursor"}

    run(open_caller, test)


def test_a_rate_is_refused_with_the_time_to_wait(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        refused = [
            outcome for _ in range(20) if not isinstance(outcome := await caller.outcome("workflow.list"), AnsweredCall)
        ]
        assert refused
        assert refused[0].error.code == "RATE_LIMITED"
        assert refused[0].error.details["retry_after_seconds"] >= 1  # type: ignore[operator]

    run(open_caller, test, read_per_minute=60)


def test_an_idempotent_call_happens_once_and_is_answered_twice(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        first = await caller.outcome("workflow.create", idempotency_key="a", document=GREET)
        again = await caller.outcome("workflow.create", idempotency_key="a", document=GREET)
        assert isinstance(first, AnsweredCall)
        assert isinstance(again, AnsweredCall)
        assert isinstance(first.reply, Reply)
        assert isinstance(again.reply, Reply)
        assert (first.replayed, again.replayed) == (False, True)
        assert again.reply.value["hash"] == first.reply.value.hash
        assert again.reply.location == first.reply.location

    run(open_caller, test)


def test_an_idempotency_key_with_other_arguments_is_refused(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await caller.reply("workflow.create", idempotency_key="a", document=GREET)
        error = await caller.refusal("workflow.create", idempotency_key="a", document={**GREET, "name": "other"})
        assert error.code == "IDEMPOTENCY_KEY_REUSED"

    run(open_caller, test)


def test_a_refused_call_gives_its_idempotency_key_back(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        assert (await caller.refusal("workflow.create", idempotency_key="a", document={})).code == "INVALID_DOCUMENT"
        await caller.reply("workflow.create", idempotency_key="a", document=GREET)

    run(open_caller, test)


def test_the_secret_of_a_key_is_made_again_for_a_repeated_call(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        first = await caller.reply("key.create", idempotency_key="k", name="once", scopes=["workflow:read"])
        again = await caller.reply("key.create", idempotency_key="k", name="once", scopes=["workflow:read"])
        assert first.value.secret.startswith("pen_")
        assert again.value["secret"] == first.value.secret
        assert again.value["key"]["id"] == first.value.key.id

    run(open_caller, test)


def test_changes_and_refusals_are_in_the_audit_trail_and_the_chain_holds(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await caller.call("workflow.create", document=GREET)
        await caller.refusal("workflow.create", document=GREET)
        records = (await caller.call("audit.list"))["items"]
        assert [(item["operation"], item["outcome"], item["code"]) for item in records] == [
            ("workflow.create", "refused", "WORKFLOW_EXISTS"),
            ("workflow.create", "allowed", None),
        ]
        verified = await caller.call("audit.verify")
        assert verified["intact"]
        assert verified["records"] == 2

    run(open_caller, test)


def test_equal_reads_become_one_record_with_a_count(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        for _ in range(5):
            await caller.call("workflow.list")
        await caller.gate.flush()
        records = (await caller.call("audit.list", operation="workflow.list"))["items"]
        assert [item["count"] for item in records] == [5]

    run(open_caller, test)


def test_what_was_gathered_is_written_when_the_gate_closes(open_caller: OpenGate) -> None:
    async def body() -> None:
        async with open_caller() as caller:
            await caller.call("workflow.list")
        async with open_caller() as caller:
            records = (await caller.call("audit.list", operation="workflow.list"))["items"]
            assert len(records) == 1

    asyncio.run(body())


def test_somebody_at_the_door_cannot_fill_the_trail(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        stranger = Caller(caller.gate, Credentials(bearer="x"), caller.penstock)
        for _ in range(50):
            await stranger.refusal("workflow.list")
        await caller.gate.flush()
        assert (await caller.call("audit.list"))["items"] == []

    run(open_caller, test)


def test_a_tenant_sees_nothing_of_another(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await caller.call("workflow.create", document=GREET)
        other = await caller.new_caller("workflow:*", "audit:read", tenant="acme")
        assert (await other.call("workflow.list"))["items"] == []
        assert (await other.refusal("workflow.get", workflow_id="greet")).code == "WORKFLOW_NOT_FOUND"
        await other.call("workflow.create", document={**GREET, "title": "Ours"})
        assert (await caller.call("workflow.get", workflow_id="greet"))["title"] is None
        assert {item["operation"] for item in (await other.call("audit.list"))["items"]} == {
            "workflow.create",
            "workflow.get",
        }

    run(open_caller, test)
