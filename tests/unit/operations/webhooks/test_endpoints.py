"""Webhooks that are sent: endpoints through the gate, and deliveries to a real receiver."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from penstock.base.errors import Unavailable
from penstock.operations.gate.context import WebhookChoices
from penstock.runtime.ports.database import Database
from penstock.runtime.tables.deliveries import read_delivery, read_next_delivery_at
from penstock.runtime.tables.resources import list_all_resources
from penstock.runtime.webhooks import feed as delivery_feed
from penstock.runtime.webhooks.feed import DeliveryFeed
from tests.unit.operations.conftest import Caller, OpenGate, change_services
from tests.unit.operations.receiver import Receiver, dispatching, receiving
from tests.waiting import SECONDS_MAX, until

GREET: dict[str, Any] = {
    "penstock": "v1",
    "name": "greet",
    "nodes": [{"id": "greeting", "type": "end", "output": {"text": "hello"}}],
}
ASK: dict[str, Any] = {
    "penstock": "v1",
    "name": "ask",
    "nodes": [{"id": "question", "type": "interrupt", "prompt": "Really?"}, {"id": "done", "type": "end"}],
}
FAIL: dict[str, Any] = {
    "penstock": "v1",
    "name": "broken",
    "nodes": [
        {"id": "which", "type": "switch", "cases": [{"when": ".input.well", "next": "done"}], "default": "stop"},
        {"id": "stop", "type": "fail", "code": "NO_WAY", "message": "it cannot be"},
        {"id": "done", "type": "end"},
    ],
}


def run(open_caller: OpenGate, test: Callable[[Caller], Awaitable[None]], **choices: Any) -> None:
    async def body() -> None:
        async with asyncio.timeout(SECONDS_MAX), open_caller(**choices) as caller:
            allow_private(caller)
            for document in (GREET, ASK, FAIL):
                await caller.call("workflow.create", document=document)
            await test(caller)

    asyncio.run(body())


def allow_private(caller: Caller) -> None:
    change_services(caller.gate, webhooks=WebhookChoices(allow_private_addresses=True))


async def listen(caller: Caller, receiver: Receiver, **more: Any) -> dict[str, Any]:
    made: dict[str, Any] = await caller.call("webhook.create", url=receiver.url, **more)
    return made


async def settled(caller: Caller, endpoint_id: str, state: str, count: int = 1) -> list[dict[str, Any]]:
    """The deliveries of an endpoint in a state, once there are so many."""
    found: list[dict[str, Any]] = []

    async def are_there() -> bool:
        page = await caller.call("delivery.list", endpoint_id=endpoint_id, state=state)
        found[:] = page["items"]
        return len(found) >= count

    await until(are_there)
    return found


async def _answer(holds: bool) -> bool:
    return holds


# --- endpoints -----------------------------------------------------------------------------------


def test_a_webhook_is_created_read_changed_and_deleted(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        made = await caller.reply("webhook.create", url="https://example.com/in", workflows=["greet"])
        view = made.value.webhook
        assert made.location == f"/webhooks/{view.id}"
        assert made.value.secret.startswith("whsec_")
        got = await caller.call("webhook.get", endpoint_id=view.id)
        assert got["events"] == ["run.completed", "run.failed", "run.cancelled"]
        assert "whsec_" not in str(got)
        changed = await caller.reply(
            "webhook.update", endpoint_id=view.id, url="https://example.com/two", if_match=made.etag, enabled=False
        )
        assert changed.value.workflows == []
        stale = await caller.refusal(
            "webhook.update", endpoint_id=view.id, url="https://x.example/", if_match=made.etag
        )
        assert stale.code == "PRECONDITION_FAILED"
        assert [item["id"] for item in (await caller.call("webhook.list"))["items"]] == [view.id]
        assert (await caller.refusal("webhook.delete", endpoint_id=view.id, if_match="x")).code == "PRECONDITION_FAILED"
        await caller.call("webhook.delete", endpoint_id=view.id, if_match=changed.etag)
        assert (await caller.refusal("webhook.get", endpoint_id=view.id)).code == "WEBHOOK_NOT_FOUND"

    run(open_caller, test)


def test_the_secret_is_shown_to_who_made_the_webhook_and_stored_nowhere(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        first = await caller.reply("webhook.create", url="https://example.com/", idempotency_key="k")
        again = await caller.reply("webhook.create", url="https://example.com/", idempotency_key="k")
        assert again.value["webhook"]["id"] == first.value.webhook.id
        assert again.value["secret"] == first.value.secret
        assert len((await caller.call("webhook.list"))["items"]) == 1
        rows = await list_all_resources(caller.gate.services.platform, "webhook")
        assert first.value.secret.removeprefix("whsec_") not in str(rows)

    run(open_caller, test)


def test_another_tenant_sees_neither_webhooks_nor_deliveries(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        made = await caller.call("webhook.create", url="https://example.com/")
        queued = await caller.call("webhook.test", endpoint_id=made["webhook"]["id"])
        other = await caller.new_caller("webhook:*", tenant="elsewhere")
        assert (await other.call("webhook.list"))["items"] == []
        for operation in ("webhook.get", "webhook.test", "webhook.delete", "webhook.rotate", "delivery.list"):
            refused = await other.refusal(operation, endpoint_id=made["webhook"]["id"])
            assert refused.code == "WEBHOOK_NOT_FOUND"
        for operation in ("delivery.get", "delivery.retry"):
            assert (await other.refusal(operation, delivery_id=queued["id"])).code == "DELIVERY_NOT_FOUND"

    run(open_caller, test)


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/",
        "ftp://example.com/",
        "https://",
        "https:///path",
        "https://user:word@example.com/",
        "https://@example.com/",
        "https://127.0.0.1/",
        "https://[::1]/",
        "https://[::ffff:10.0.0.1]/",
        "https://169.254.169.254/latest/meta-data",
        "https://0x7f000001/",
        "https://2130706433/",
        "https://10.1.2.3/",
        "https://example.com/#part",
        "https://example.com:99999/",
        "https://exa mple.com/",
        "https://exämple.com/",
        "https://example.com/\nx",
        "nonsense",
        "https://[::1",
    ],
)
def test_addresses_that_events_may_not_go_to_are_refused(open_caller: OpenGate, url: str) -> None:
    async def test(caller: Caller) -> None:
        change_services(caller.gate, webhooks=WebhookChoices())
        error = await caller.refusal("webhook.create", url=url)
        assert error.code in ("WEBHOOK_URL_INVALID", "INVALID_ARGUMENTS")

    run(open_caller, test)


def test_metadata_services_stay_closed_whatever_the_operator_allows(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        error = await caller.refusal("webhook.create", url="http://169.254.169.254/")
        assert error.code == "WEBHOOK_URL_INVALID"
        await caller.call("webhook.create", url="http://10.0.0.1/")

    run(open_caller, test)


def test_unknown_events_are_refused(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        for events in (["run.exploded"], [], "run.completed"):
            error = await caller.refusal("webhook.create", url="https://example.com/", events=events)
            assert error.code == "INVALID_ARGUMENTS"

    run(open_caller, test)


# --- deliveries ----------------------------------------------------------------------------------


def test_events_arrive_signed_in_the_form_of_cloudevents(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        async with receiving() as receiver, dispatching(caller):
            made = await listen(caller, receiver, events=["run.started", "run.completed"])
            await caller.call("workflow.execute", workflow_id="greet", execution_id="one", labels={"team": "red"})
            events = await receiver.events(2)
            assert sorted(event["type"] for event in events) == ["penstock.run.completed", "penstock.run.started"]
            completed = next(event for event in events if event["type"] == "penstock.run.completed")
            assert completed["specversion"] == "1.0"
            assert completed["subject"] == "one"
            assert completed["source"] == "https://penstock.example/api/v0/workflows/greet"
            assert completed["id"] == f"one/{completed['data']['sequence']}"
            assert completed["data"]["status"] == "completed"
            assert completed["data"]["labels"] == {"team": "red"}
            assert "output" not in completed["data"]
            for item in receiver.received:
                assert item.is_signed_with(made["secret"])
                assert item.headers["content-type"].startswith("application/cloudevents+json")
            done = await settled(caller, made["webhook"]["id"], "delivered", 2)
            assert {item["id"] for item in done} == {item.headers["webhook-id"] for item in receiver.received}
            assert {item["last_status"] for item in done} == {204}

    run(open_caller, test)


def test_failures_waits_and_ends_are_told_apart(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        async with receiving() as receiver, dispatching(caller):
            kinds = ["run.failed", "run.waiting", "run.paused", "run.resumed", "run.cancelled"]
            await listen(caller, receiver, events=kinds)
            await caller.call("workflow.execute", workflow_id="broken", execution_id="bad")
            await caller.call("workflow.execute", workflow_id="ask", execution_id="asks")
            await caller.call("execution.pause", execution_id="asks", reason="lunch")
            await caller.call("execution.resume", execution_id="asks")
            await caller.call("execution.cancel", execution_id="asks", reason="never mind")
            events = await receiver.events(5)
            found = {event["type"].removeprefix("penstock."): event["data"] for event in events}
            assert set(found) == set(kinds)
            assert found["run.failed"]["error"]["code"] == "NO_WAY"
            assert found["run.waiting"]["status"] == "waiting_input"
            assert found["run.waiting"]["node_id"] == "question"
            assert "prompt" not in found["run.waiting"]
            assert found["run.cancelled"]["reason"] == "never mind"

    run(open_caller, test)


def test_the_output_goes_to_those_who_asked_for_it(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        async with receiving() as receiver, dispatching(caller):
            await listen(caller, receiver, include_output=True)
            await caller.call("workflow.execute", workflow_id="greet")
            (event,) = await receiver.events(1)
            assert event["data"]["output"] == {"text": "hello"}

    run(open_caller, test)


def test_only_the_workflows_that_were_named_are_told_of(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        async with receiving() as receiver, dispatching(caller):
            await listen(caller, receiver, workflows=["broken"])
            await caller.call("workflow.execute", workflow_id="greet", sync=True)
            await caller.call("workflow.execute", workflow_id="broken")
            events = await receiver.events(1)
            assert [event["type"] for event in events] == ["penstock.run.failed"]

    run(open_caller, test)


def test_what_happened_before_a_webhook_was_made_is_not_told(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        async with receiving() as receiver, dispatching(caller):
            await caller.call("workflow.execute", workflow_id="greet", execution_id="before", sync=True)
            clock = caller.gate.services.clock
            before = clock.now_ms()
            await until(lambda: _answer(clock.now_ms() > before))
            await listen(caller, receiver)
            await caller.call("workflow.execute", workflow_id="greet", execution_id="after")
            assert [event["subject"] for event in await receiver.events(1)] == ["after"]

    run(open_caller, test)


def test_tenants_hear_only_of_their_own_runs(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        async with receiving() as receiver, dispatching(caller):
            other = await caller.new_caller("*", tenant="elsewhere")
            await other.call("workflow.create", document=GREET)
            await listen(other, receiver)
            await caller.call("workflow.execute", workflow_id="greet", sync=True)
            await other.call("workflow.execute", workflow_id="greet", execution_id="theirs")
            (event,) = await receiver.events(1)
            assert event["subject"] == "theirs"
            assert event["penstocktenant"] == "elsewhere"

    run(open_caller, test)


def test_a_failed_attempt_is_made_again_with_the_same_id_and_body(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        async with receiving() as receiver, dispatching(caller):
            receiver.statuses = [500, 302, 200]
            made = await listen(caller, receiver)
            await caller.call("workflow.execute", workflow_id="greet")
            await receiver.events(3)
            (done,) = await settled(caller, made["webhook"]["id"], "delivered")
            assert done["attempts"] == 3
            assert len({item.headers["webhook-id"] for item in receiver.received}) == 1
            assert len({item.body for item in receiver.received}) == 1
            assert all(item.is_signed_with(made["secret"]) for item in receiver.received)

    run(open_caller, test)


def test_what_cannot_be_delivered_is_put_aside_and_can_be_sent_again(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        async with receiving() as receiver, dispatching(caller, attempts_max=2):
            receiver.statuses = [503]
            made = await listen(caller, receiver)
            endpoint_id = made["webhook"]["id"]
            await caller.call("workflow.execute", workflow_id="greet")
            (dead,) = await settled(caller, endpoint_id, "dead")
            assert (dead["attempts"], dead["last_status"]) == (2, 503)
            receiver.statuses = [200]
            again = await caller.call("delivery.retry", delivery_id=dead["id"])
            assert again["state"] == "pending"
            (done,) = await settled(caller, endpoint_id, "delivered")
            assert done["id"] == dead["id"]
            assert (await caller.call("delivery.get", delivery_id=dead["id"]))["state"] == "delivered"

    run(open_caller, test)


def test_a_receiver_that_is_gone_is_disabled(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        async with receiving() as receiver, dispatching(caller):
            receiver.statuses = [410]
            made = await listen(caller, receiver)
            endpoint_id = made["webhook"]["id"]
            await caller.call("workflow.execute", workflow_id="greet")
            await settled(caller, endpoint_id, "dead")
            view = await caller.call("webhook.get", endpoint_id=endpoint_id)
            assert view["enabled"] is False
            assert "410" in view["disabled_because"]
            (record,) = (await caller.call("audit.list", operation="webhook.disable"))["items"]
            assert (record["principal"], record["subject"]) == ("system:deliveries", endpoint_id)
            assert (await caller.refusal("webhook.test", endpoint_id=endpoint_id)).code == "WEBHOOK_DISABLED"
            dead = (await caller.call("delivery.list", endpoint_id=endpoint_id))["items"][0]
            assert (await caller.refusal("delivery.retry", delivery_id=dead["id"])).code == "WEBHOOK_DISABLED"
            await caller.call("webhook.update", endpoint_id=endpoint_id, url=receiver.url)
            view = await caller.call("webhook.get", endpoint_id=endpoint_id)
            assert (view["enabled"], view["disabled_because"]) == (True, None)

    run(open_caller, test)


def test_a_receiver_can_ask_for_more_time(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        async with receiving() as receiver, dispatching(caller):
            receiver.statuses, receiver.headers = [429], {"retry-after": "3600"}
            made = await listen(caller, receiver)
            await caller.call("workflow.execute", workflow_id="greet")
            await receiver.events(1)
            platform, clock = caller.gate.services.platform, caller.gate.services.clock

            async def was_refused() -> bool:
                return bool((await settled(caller, made["webhook"]["id"], "pending"))[0]["last_status"] == 429)

            await until(was_refused)
            next_at = await read_next_delivery_at(platform)
            assert next_at is not None
            assert next_at - clock.now_ms() > 3_000_000

    run(open_caller, test)


def test_private_addresses_are_refused_when_something_is_sent(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        async with receiving() as receiver, dispatching(caller, allow_private=False, attempts_max=1):
            # Registered while private addresses were allowed; and a name that is harmless to look at.
            port = receiver.url.split(":")[2]
            for url in (receiver.url, f"http://localhost:{port}"):
                made = await caller.call("webhook.create", url=url)
                await caller.call("webhook.test", endpoint_id=made["webhook"]["id"])
                (dead,) = await settled(caller, made["webhook"]["id"], "dead")
                assert "not allowed" in dead["last_error"]
            assert receiver.received == []

    run(open_caller, test)


def test_a_test_event_arrives(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        async with receiving() as receiver, dispatching(caller):
            made = await listen(caller, receiver)
            queued = await caller.call("webhook.test", endpoint_id=made["webhook"]["id"])
            assert queued["execution_id"] is None
            (event,) = await receiver.events(1)
            assert event["type"] == "penstock.webhook.test"
            assert receiver.received[0].headers["webhook-id"] == queued["id"]

    run(open_caller, test)


def test_after_a_rotation_events_are_signed_with_both_secrets(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        async with receiving() as receiver, dispatching(caller):
            old = await listen(caller, receiver)
            endpoint_id = old["webhook"]["id"]
            new = await caller.call("webhook.rotate", endpoint_id=endpoint_id)
            await caller.call("webhook.test", endpoint_id=endpoint_id)
            await receiver.events(1)
            assert receiver.received[0].is_signed_with(old["secret"])
            assert receiver.received[0].is_signed_with(new["secret"])
            newest = await caller.call("webhook.rotate", endpoint_id=endpoint_id, overlap="0s")
            await caller.call("webhook.test", endpoint_id=endpoint_id)
            await receiver.events(2)
            assert receiver.received[1].is_signed_with(newest["secret"])
            assert not receiver.received[1].is_signed_with(new["secret"])
            error = await caller.refusal("webhook.rotate", endpoint_id=endpoint_id, overlap="soon")
            assert error.code == "DURATION_INVALID"

    run(open_caller, test)


def test_one_receiver_gets_few_events_at_once_and_does_not_hold_up_another(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        async with receiving() as slow, receiving() as quick, dispatching(caller, per_endpoint_max=2, at_once_max=4):
            slow.hold = asyncio.Event()
            await listen(caller, slow)
            await listen(caller, quick)
            for _ in range(8):
                await caller.call("workflow.execute", workflow_id="greet")
            await quick.events(8)
            assert slow.at_once_most == 2
            slow.hold.set()
            await slow.events(8)
            assert slow.at_once_most == 2

    run(open_caller, test)


def test_events_of_a_fork_are_only_its_own(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        async with receiving() as receiver, dispatching(caller):
            await listen(caller, receiver, events=["run.started", "run.waiting", "run.completed"])
            await caller.call("workflow.execute", workflow_id="ask", execution_id="one")
            await receiver.events(2)
            await caller.call("execution.answer", execution_id="one", answer={"yes": True})
            await receiver.events(3)
            waiting = next(item for item in receiver.received if item.event["type"].endswith("waiting"))
            at = waiting.event["data"]["sequence"]
            await caller.call("execution.fork", execution_id="one", at_sequence=at, new_execution_id="two")
            await caller.call("execution.answer", execution_id="two", answer={"yes": False})
            events = (await receiver.events(5))[3:]
            assert sorted((event["type"], event["subject"]) for event in events) == [
                ("penstock.run.completed", "two"),
                ("penstock.run.started", "two"),
            ]

    run(open_caller, test)


# --- crashes -------------------------------------------------------------------------------------


def test_what_was_stored_before_a_crash_is_told_after_it(open_caller: OpenGate) -> None:
    async def body() -> None:
        async with asyncio.timeout(SECONDS_MAX), receiving() as receiver:
            async with open_caller() as caller:
                allow_private(caller)
                await caller.call("workflow.create", document=GREET)
                async with dispatching(caller):
                    await listen(caller, receiver)
                    await caller.call("workflow.execute", workflow_id="greet", execution_id="first")
                    await receiver.events(1)
                # Nobody looks while these end: as if the process had died right after each commit.
                for number in range(3):
                    await caller.call("workflow.execute", workflow_id="greet", execution_id=f"r{number}", sync=True)
            async with open_caller() as caller:
                allow_private(caller)
                async with dispatching(caller):
                    events = await receiver.events(4)
                    assert sorted(event["subject"] for event in events) == ["first", "r0", "r1", "r2"]

    asyncio.run(body())


def test_a_crash_between_queueing_and_the_mark_queues_nothing_twice(
    open_caller: OpenGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(caller: Caller) -> None:
        services = caller.gate.services
        made = await caller.call("webhook.create", url="https://example.com/")
        await caller.call("workflow.execute", workflow_id="greet", sync=True)

        def feed() -> DeliveryFeed:
            return DeliveryFeed(platform=services.platform, store=services.store, clock=services.clock)

        # The first dies after its rows are queued and before its mark is written.
        async def dies(database: Database, name: str, value: Any) -> None:
            raise Unavailable("STORE_FULL", "the disk is full")

        monkeypatch.setattr(delivery_feed, "set_mark", dies)
        with pytest.raises(Unavailable):
            await feed().queue_new()
        monkeypatch.undo()
        second = feed()
        assert await second.queue_new() == (0, False)
        await second.write_mark()
        assert await feed().queue_new() == (0, False)
        page = await caller.call("delivery.list", endpoint_id=made["webhook"]["id"])
        assert len(page["items"]) == 1

    run(open_caller, test)


def test_a_crash_while_sending_sends_again(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        async with receiving() as receiver:
            receiver.hold = asyncio.Event()
            made = await listen(caller, receiver)
            async with dispatching(caller):
                await caller.call("webhook.test", endpoint_id=made["webhook"]["id"])
                await receiver.events(1)
            receiver.hold.set()
            (left,) = await settled(caller, made["webhook"]["id"], "pending")
            assert left["attempts"] == 1
            row = await read_delivery(caller.gate.services.platform, "default", left["id"])
            assert row is not None
            assert (row.next_at or 0) > caller.gate.services.clock.now_ms()
            await caller.call("delivery.retry", delivery_id=left["id"])
            async with dispatching(caller):
                await receiver.events(2)
                await settled(caller, made["webhook"]["id"], "delivered")
            assert receiver.received[0].headers["webhook-id"] == receiver.received[1].headers["webhook-id"]

    run(open_caller, test)


def test_deliveries_to_a_deleted_webhook_are_put_aside(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        made = await caller.call("webhook.create", url="https://example.com/")
        queued = await caller.call("webhook.test", endpoint_id=made["webhook"]["id"])
        await caller.call("webhook.delete", endpoint_id=made["webhook"]["id"])
        async with dispatching(caller):

            async def is_dead() -> bool:
                return bool((await caller.call("delivery.get", delivery_id=queued["id"]))["state"] == "dead")

            await until(is_dead)

    run(open_caller, test)


def test_two_processes_on_one_file_tell_everything(open_caller: OpenGate) -> None:
    async def body() -> None:
        async with (
            asyncio.timeout(SECONDS_MAX),
            receiving() as receiver,
            open_caller() as here,
            open_caller() as there,
        ):
            allow_private(here)
            await here.call("workflow.create", document=GREET)
            async with dispatching(here):
                await listen(here, receiver)
                await there.call("workflow.execute", workflow_id="greet", execution_id="theirs", sync=True)
                events = await receiver.events(1)
                assert [event["subject"] for event in events] == ["theirs"]

    asyncio.run(body())
