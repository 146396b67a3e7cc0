"""Who is told of one execution: asked for through the gate, told at a real receiver, forgotten at the end."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from penstock.base import limits
from penstock.operations.gate.context import WebhookChoices
from penstock.runtime.tables.deliveries import list_deliveries
from penstock.runtime.tables.resources import list_all_resources
from tests.unit.operations.conftest import Caller, OpenGate, change_services
from tests.unit.operations.receiver import dispatching, receiving
from tests.unit.operations.webhooks.test_endpoints import run
from tests.waiting import until

SECRETS: dict[str, Any] = {"token": "tok-4711", "authentication": {"scheme": "Bearer", "credentials": "cred-0815"}}


async def asking(caller: Caller) -> str:
    started = await caller.call("workflow.execute", workflow_id="ask")
    await caller.call("execution.wait", execution_id=started["execution_id"], wait_seconds=30)
    return str(started["execution_id"])


async def told(caller: Caller, execution_id: str, url: str, name: str = "main", **more: Any) -> dict[str, Any]:
    made: dict[str, Any] = await caller.call(
        "notification.set", execution_id=execution_id, notification_id=name, url=url, **more
    )
    return made


async def is_forgotten(caller: Caller, execution_id: str) -> None:
    async def nobody() -> bool:
        return not (await caller.call("notification.list", execution_id=execution_id))["items"]

    await until(nobody)


def test_a_receiver_is_told_the_question_and_the_end_and_then_forgotten(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        execution_id = await asking(caller)
        async with receiving() as receiver, dispatching(caller):
            await told(caller, execution_id, receiver.url, **SECRETS)
            (asked,) = await receiver.events(1)
            assert asked["statusUpdate"]["taskId"] == execution_id
            assert asked["statusUpdate"]["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
            await caller.call("execution.answer", execution_id=execution_id, answer={"yes": True})
            last = (await receiver.events(2))[-1]
            assert last["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
            for request in receiver.received:
                assert request.headers["x-a2a-notification-token"] == "tok-4711"
                assert request.headers["authorization"] == "Bearer cred-0815"
                assert request.headers["content-type"] == "application/json"
                assert "webhook-signature" in request.headers
            await is_forgotten(caller, execution_id)

    run(open_caller, test)


def test_what_has_ended_already_is_told_at_once_and_a_failure_is_tried_again(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        done = await caller.call("workflow.execute", workflow_id="greet", sync=True)
        async with receiving() as receiver, dispatching(caller):
            receiver.statuses = [503, 204]
            await told(caller, done["execution_id"], receiver.url)
            _, again = await receiver.events(2)
            assert again["task"]["artifacts"][0]["parts"] == [{"text": "hello"}]
            await is_forgotten(caller, done["execution_id"])

    run(open_caller, test)


def test_a_notification_and_its_first_delivery_are_stored_together_or_not_at_all(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        database = caller.gate.services.platform
        execution_id = await asking(caller)
        refuse = "CREATE TRIGGER refuse BEFORE INSERT ON deliveries BEGIN SELECT RAISE(ABORT, 'no room'); END"
        await database.write(lambda transaction: transaction.execute(refuse))
        await caller.refusal(
            "notification.set", execution_id=execution_id, notification_id="main", url="https://example.com/"
        )
        assert (await caller.call("notification.list", execution_id=execution_id))["items"] == []
        await database.write(lambda transaction: transaction.execute("DROP TRIGGER refuse"))
        await told(caller, execution_id, "https://example.com/")
        assert len((await list_deliveries(database, "default", limit=5)).rows) == 1

    run(open_caller, test)


def test_secrets_are_stored_sealed_and_shown_to_nobody(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        execution_id = await asking(caller)
        await told(caller, execution_id, "https://example.com/", **SECRETS)
        shown = [
            await caller.call("notification.get", execution_id=execution_id, notification_id="main"),
            await caller.call("notification.list", execution_id=execution_id),
            await caller.call("webhook.list"),
            await caller.call("audit.list", limit=50),
            str(await list_all_resources(caller.gate.services.platform, "webhook")),
        ]
        assert shown[0]["url"] == "https://example.com/"
        assert shown[2]["items"][0]["execution_id"] == execution_id
        for secret in ("tok-4711", "cred-0815"):
            assert secret not in str(shown)
        [webhook] = shown[2]["items"]
        moved = {"endpoint_id": webhook["id"], "url": "https://elsewhere.example/"}
        assert (await caller.refusal("webhook.update", **moved)).code == "WEBHOOK_OF_EXECUTION"

    run(open_caller, test)


def test_a_receiver_is_told_nothing_once_the_key_of_its_reader_is_revoked(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        execution_id = await asking(caller)
        reader = await caller.new_caller("webhook:*", "execution:read")
        async with receiving() as receiver:
            made = await told(reader, execution_id, receiver.url)
            await caller.call("key.revoke", key_id=made["updated_by"].removeprefix("key:"))
            async with dispatching(caller):
                await is_forgotten(caller, execution_id)
            assert receiver.received == []

    run(open_caller, test)


def test_other_tenants_and_keys_without_the_scope_know_of_no_receiver(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        execution_id = await asking(caller)
        await told(caller, execution_id, "https://example.com/")
        named = {"execution_id": execution_id, "notification_id": "main"}
        other = await caller.new_caller("*", tenant="elsewhere")
        for operation in ("notification.get", "notification.delete"):
            assert (await other.refusal(operation, **named)).code == "EXECUTION_NOT_FOUND"
        assert (
            await other.refusal("notification.set", **named, url="https://x.example/")
        ).code == "EXECUTION_NOT_FOUND"
        reader = await caller.new_caller("execution:*", "agent:*")
        assert (await reader.refusal("notification.set", **named, url="https://x.example/")).code == "SCOPE_REQUIRED"
        await caller.call("notification.delete", **named)
        assert (await caller.refusal("notification.get", **named)).code == "NOTIFICATION_NOT_FOUND"

    run(open_caller, test)


def test_a_repeated_end_is_answered_alike_and_names_the_execution_in_the_audit_log(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        execution_id = await asking(caller)
        await told(caller, execution_id, "https://example.com/")
        named = {"execution_id": execution_id, "notification_id": "main"}
        first = await caller.reply("notification.delete", **named, idempotency_key="k")
        again = await caller.reply("notification.delete", **named, idempotency_key="k")
        assert first.value.id == "main"
        assert msgspec.to_builtins(again.value) == msgspec.to_builtins(first.value)
        audited = (await caller.call("audit.list", operation="notification.delete", outcome="allowed"))["items"]
        assert {item["subject"] for item in audited} == {execution_id}

    run(open_caller, test)


def test_an_execution_has_a_few_receivers_and_one_that_is_set_again_is_no_other(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        execution_id = await asking(caller)
        for number in range(limits.NOTIFICATIONS_PER_RUN_MAX):
            await told(caller, execution_id, "https://example.com/", name=f"n{number}")
        await told(caller, execution_id, "https://example.com/again", name="n0")
        refused = await caller.refusal(
            "notification.set", execution_id=execution_id, notification_id="more", url="https://example.com/"
        )
        assert refused.code == "NOTIFICATIONS_LIMITED"
        assert (await caller.call("webhook.create", url="https://example.com/"))["webhook"]["execution_id"] is None

    run(open_caller, test)


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/",
        "https://127.0.0.1/",
        "https://[::1]/",
        "https://10.0.0.7/",
        "https://169.254.169.254/latest/meta-data",
        "https://2130706433/",
        "https://user:word@example.com/",
        "file:///etc/passwd",
    ],
)
def test_hostile_addresses_are_refused(open_caller: OpenGate, url: str) -> None:
    async def test(caller: Caller) -> None:
        change_services(caller.gate, webhooks=WebhookChoices())
        execution_id = await asking(caller)
        refused = await caller.refusal("notification.set", execution_id=execution_id, notification_id="main", url=url)
        assert refused.code == "WEBHOOK_URL_INVALID"

    run(open_caller, test)


@pytest.mark.parametrize("token", ["a\r\nx: y", "ä", "", " a"])
def test_a_token_that_is_no_value_of_a_header_is_refused(open_caller: OpenGate, token: str) -> None:
    async def test(caller: Caller) -> None:
        execution_id = await asking(caller)
        given = {"execution_id": execution_id, "notification_id": "main", "url": "https://example.com/"}
        assert (await caller.refusal("notification.set", **given, token=token)).code == "INVALID_ARGUMENTS"

    run(open_caller, test)
