"""A webhook is sent what whoever made it may see when it is sent."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from penstock.runtime.tables.resources import put_resource, read_resource
from penstock.runtime.webhooks.endpoints import ENDPOINT_KIND
from tests.unit.operations.conftest import Caller, OpenGate
from tests.unit.operations.documents import workflow
from tests.unit.operations.receiver import dispatching, receiving
from tests.unit.operations.webhooks.test_endpoints import listen, run, settled

PAY = workflow(
    "pay",
    {"id": "done", "type": "end", "output": {"card": "4111", "paid": True}},
    output={"type": "object", "properties": {"card": {"type": "string"}, "paid": {"type": "boolean"}}},
    expose={"tool": True},
)
HIDES = (
    '@id("cards") @redact("output.card") forbid (principal, action == Action::"workflow:pay", resource)'
    ' unless { principal in Group::"finance" };'
)


async def outputs(caller: Caller, *listeners: Caller) -> list[Any]:
    """What webhooks of these callers are sent of a run, after a policy hides something from all but one group."""
    found = []
    for listener in listeners:
        async with receiving() as receiver, dispatching(caller):
            made = await listen(listener, receiver, include_output=True, workflows=["pay"])
            await caller.call("policy.put", policy_id="cards", text=HIDES)
            await caller.call("workflow.execute", workflow_id="pay")
            (event,) = await receiver.events(1)
            found.append(event["data"]["output"])
            await caller.call("webhook.delete", endpoint_id=made["webhook"]["id"])
            await caller.call("policy.delete", policy_id="cards")
    return found


def test_hidden_fields_are_not_sent_to_webhooks_that_exist_already(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await caller.call("workflow.import", workflows=[PAY])
        blind = await caller.new_caller("webhook:*", "workflow:*", kind="person")
        sees = await caller.new_caller("webhook:*", "workflow:*", kind="person", groups=["finance"])
        assert await outputs(caller, blind, sees) == [{"paid": True}, {"card": "4111", "paid": True}]

    run(open_caller, test)


def test_what_was_queued_before_the_policy_is_sent_without_the_field_too(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await caller.call("workflow.import", workflows=[PAY])
        blind = await caller.new_caller("webhook:*", "workflow:*", kind="person")
        async with receiving() as receiver, dispatching(caller):
            made = await listen(blind, receiver, include_output=True)
            await caller.call("workflow.execute", workflow_id="pay")
            assert (await receiver.events(1))[0]["data"]["output"]["card"] == "4111"
            (sent,) = await settled(caller, made["webhook"]["id"], "delivered")
            await caller.call("policy.put", policy_id="cards", text=HIDES)
            finance = await caller.new_caller("webhook:*", kind="person", groups=["finance"])
            await finance.call("delivery.retry", delivery_id=sent["id"])
            assert (await receiver.events(2))[1]["data"]["output"] == {"paid": True}

    run(open_caller, test)


@pytest.mark.parametrize("change", ["rotate", "older"])
def test_whoever_changes_a_webhook_without_deciding_what_is_sent_widens_nothing(
    open_caller: OpenGate, change: str
) -> None:
    async def test(caller: Caller) -> None:
        await caller.call("workflow.import", workflows=[PAY])
        blind = await caller.new_caller("webhook:*", "workflow:*", kind="person")
        finance = await caller.new_caller("webhook:*", kind="person", groups=["finance"])
        async with receiving() as receiver, dispatching(caller):
            made = await listen(blind, receiver, include_output=True)
            endpoint_id = made["webhook"]["id"]
            if change == "rotate":
                await finance.call("webhook.rotate", endpoint_id=endpoint_id)
            else:  # a row of an older release, which the process itself changed last
                platform = caller.gate.services.platform
                row = await read_resource(platform, "default", ENDPOINT_KIND, endpoint_id)
                assert row is not None
                body = {name: value for name, value in row.body.items() if name != "maker"}
                older = replace(row, body=body, updated_by="system:deliveries")
                await put_resource(platform, older, expected_etag=row.etag)
            await caller.call("policy.put", policy_id="cards", text=HIDES)
            await caller.call("workflow.execute", workflow_id="pay")
            (event,) = await receiver.events(1)
            assert event["data"]["output"] == ({"paid": True} if change == "rotate" else None)

    run(open_caller, test)


def test_an_agent_is_not_told_of_held_calls_of_others(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await caller.call("workflow.import", workflows=[PAY])
        # A person lets an agent have its webhook: creating one waits for approval.
        agent = await caller.new_caller("*", kind="agent")
        robot, person = await caller.new_caller("*", kind="agent"), await caller.new_caller("*", kind="person")
        async with receiving() as receiver, receiving() as other, dispatching(caller):
            held = await agent.call("webhook.create", url=receiver.url, include_output=True)
            await caller.call("draft.approve", draft_id=held["held"]["draft_id"])
            await listen(person, other)
            theirs = await robot.call("webhook.create", url="https://example.com/hook")
            draft_id = theirs["held"]["draft_id"]
            await caller.call("draft.cancel", draft_id=draft_id)
            assert [event["subject"] for event in await other.events(1)] == [draft_id]
            endpoint = (await caller.call("webhook.list"))["items"]
            (mine,) = [item["id"] for item in endpoint if item["url"] == receiver.url]
            (dropped,) = await settled(caller, mine, "dead")
            assert "may not see" in dropped["last_error"]
            # It hears of its own, which made the webhook.
            assert {item.event["subject"] for item in receiver.received} <= {held["held"]["draft_id"]}

    run(open_caller, test)
