"""Who started a run stands in its first record and in its view: one table, every way to start."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from penstock.app.gate import local_owner
from penstock.governance.webhook_signatures import sign_request
from penstock.operations.webhooks.receiver import HookAnswer, WebhookReceiver
from penstock.operations.webhooks.requests import HookRequest
from penstock.runtime.tables.schedules import list_schedules, put_schedule
from tests.unit.operations.conftest import Caller, OpenGate
from tests.waiting import SECONDS_MAX

END: dict[str, Any] = {"id": "done", "type": "end", "output": 1}
PLAIN: dict[str, Any] = {"penstock": "v1", "name": "plain", "nodes": [END], "expose": {"tool": True}}
PARENT: dict[str, Any] = {
    "penstock": "v1",
    "name": "parent",
    "nodes": [{"id": "child", "type": "subworkflow", "workflow": "plain"}, END],
}
AGAIN: dict[str, Any] = {
    "penstock": "v1",
    "name": "again",
    "input": {"type": "object", "properties": {"more": {"type": "boolean"}}},
    "nodes": [
        {"id": "look", "type": "switch", "cases": [{"when": ".input.more", "next": "next"}], "default": "done"},
        {"id": "next", "type": "continue_as_new", "input": {"more": False}},
        END,
    ],
}
HOOKED: dict[str, Any] = {
    "penstock": "v1",
    "name": "hooked",
    "secrets": ["HOOK_KEY"],
    "triggers": [{"id": "order", "webhook": {"path": "orders", "secret": "${secret:HOOK_KEY}"}}],
    "nodes": [END],
}
SECRET = "a secret of sixteen characters"


class Ada:
    """Somebody with a key, who starts things in every way."""

    def __init__(self, owner: Caller, caller: Caller, key_id: str) -> None:
        self.owner = owner
        self.caller = caller
        self.key_id = key_id
        self.id = f"key:{key_id}"

    async def execution(self, operation: str, /, **arguments: Any) -> str:
        return str((await self.caller.call(operation, **arguments))["execution_id"])


Way = Callable[[Ada], Awaitable[str]]


async def execute(ada: Ada) -> str:
    return await ada.execution("workflow.execute", workflow_id="plain")


async def tool(ada: Ada) -> str:
    return await ada.execution("workflow:plain")


async def control(ada: Ada) -> str:
    sent = {"definition": {**PLAIN, "name": "sent"}, "input": {}}
    made = await ada.owner.accepted(await ada.caller.call("control.workflow_start", **sent))
    return str(made["execution_id"])


async def child(ada: Ada) -> str:
    parent = await ada.execution("workflow.execute", workflow_id="parent")
    await ada.owner.penstock.host.wait_for_end(parent, timeout_seconds=SECONDS_MAX)
    page = await ada.caller.call("execution.list", parent_id=parent)
    return str(page["items"][0]["execution_id"])


async def next_of_a_chain(ada: Ada) -> str:
    first = await ada.execution("workflow.execute", workflow_id="again", input={"more": True})
    last = await ada.owner.penstock.host.wait_for_end(first, timeout_seconds=SECONDS_MAX)
    assert last is not None
    assert last.run_id != first
    return last.run_id


async def fork(ada: Ada) -> str:
    original = await ada.owner.call("workflow.execute", workflow_id="plain")
    await ada.owner.penstock.host.wait_for_end(original["execution_id"], timeout_seconds=SECONDS_MAX)
    return await ada.execution("execution.fork", execution_id=original["execution_id"], at_sequence=1)


async def scheduled(ada: Ada) -> str:
    made = await ada.caller.call("schedule.create", schedule_id="daily", workflow_id="plain", cron="0 3 * * *")
    if "held" in made:  # what an agent stores waits for a person
        await ada.owner.accepted(made)
    store = ada.owner.penstock.store
    (row,) = await list_schedules(store.database)
    await put_schedule(store.database, replace(row, next_at=ada.owner.gate.services.clock.now_ms() - 1_000))
    await ada.owner.penstock.scheduler.fire_due()
    return str((await ada.caller.call("schedule.get", schedule_id="daily"))["last_run"]["execution_id"])


async def scheduled_by_hand(ada: Ada) -> str:
    await ada.owner.call("schedule.create", schedule_id="daily", workflow_id="plain", cron="0 3 * * *")
    return await ada.execution("schedule.run_now", schedule_id="daily")


async def webhook(ada: Ada) -> str:
    await ada.owner.accepted(await ada.caller.call("workflow.create", document=HOOKED))
    gate, body = ada.owner.gate, b"{}"
    headers = {"content-type": "application/json"}
    headers["x-penstock-signature"] = sign_request(SECRET, body, now_ms=gate.services.clock.now_ms())
    answer = await WebhookReceiver.of(gate).receive(
        HookRequest(path="orders", method="POST", headers=headers, query_string="", body=body, request_id="test")
    )
    assert isinstance(answer, HookAnswer), answer
    return str(answer.execution_id)


async def program(ada: Ada) -> str:
    return (await ada.owner.penstock.start("plain")).id


ADA, ADAS_KEY = "ada", "her key"
# The principal, how it is known, the credential, on whose behalf, and what it is.
WAYS: dict[Way, tuple[str, str, str | None, str | None, str | None]] = {
    execute: (ADA, "key", ADAS_KEY, None, "agent"),
    tool: (ADA, "key", ADAS_KEY, None, "agent"),
    control: (ADA, "key", ADAS_KEY, None, "agent"),
    child: (ADA, "key", ADAS_KEY, None, "agent"),
    next_of_a_chain: (ADA, "key", ADAS_KEY, None, "agent"),
    fork: (ADA, "key", ADAS_KEY, None, "agent"),
    scheduled: ("schedule:daily", "schedule", None, ADA, "schedule"),
    scheduled_by_hand: (ADA, "key", ADAS_KEY, None, "agent"),
    webhook: ("webhook:default:hooked:order", "webhook", "HOOK_KEY", ADA, "webhook"),
    program: ("program", "program", None, None, None),
}


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_the_first_record_says_who_started_a_run(
    open_caller: OpenGate, monkeypatch: pytest.MonkeyPatch, way: Way
) -> None:
    monkeypatch.setenv("PENSTOCK_SECRET_HOOK_KEY", SECRET)

    async def body() -> None:
        async with asyncio.timeout(SECONDS_MAX), open_caller() as owner:
            for document in (PLAIN, PARENT, AGAIN):
                await owner.call("workflow.create", document=document)
            made = await owner.call("key.create", name="ada", scopes=["*"], kind="agent")
            ada = Ada(owner, owner.with_key(made["secret"]), made["key"]["id"])
            run_id = await way(ada)
            (first,) = await owner.penstock.host.history(run_id, limit=1)
            names = {ADA: ada.id, ADAS_KEY: ada.key_id}
            principal, kind, credential, behalf, sort = (names.get(str(word), word) for word in WAYS[way])
            told = {"kind": kind, "credential": credential, "onBehalfOf": behalf, "principalKind": sort}
            told["owner"] = local_owner().id if credential == ada.key_id else None
            made_by = [local_owner().id] if behalf == ada.id else None  # who made the key of whom a trigger acts for
            # The agent wrote what runs, and a person accepted it.
            authors = [ada.id, local_owner().id] if way in {control, webhook} else None
            assert first.payload["startedBy"] == principal
            assert first.payload["starter"] == {
                name: value
                for name, value in {**told, "lineage": made_by, "authors": authors}.items()
                if value is not None
            }
            view = await owner.call("execution.status", execution_id=run_id)
            shown = {"principal": principal, "kind": kind, "credential": credential, "on_behalf_of": behalf}
            shown["principal_kind"] = sort
            assert view["started_by"] == shown
            assert made["secret"] not in msgspec.json.encode(first.payload).decode()

    asyncio.run(body())


def test_whoever_made_a_schedule_does_not_approve_what_it_starts(open_caller: OpenGate) -> None:
    asks = {
        "penstock": "v1",
        "name": "plain",
        "nodes": [
            {"id": "ask", "type": "interrupt", "prompt": "May it?", "approvers": {"not_requester": True}},
            END,
        ],
    }

    async def body() -> None:
        async with asyncio.timeout(SECONDS_MAX), open_caller() as owner:
            await owner.call("workflow.create", document=asks)
            made = await owner.call("key.create", name="ada", scopes=["*"], kind="person")
            ada = Ada(owner, owner.with_key(made["secret"]), made["key"]["id"])
            run_id = await scheduled(ada)
            again = await ada.caller.call("key.rotate", key_id=ada.key_id, overlap="1h")
            for caller in (ada.caller, owner.with_key(again["secret"]), owner):  # the owner made her key
                refused = await caller.refusal("execution.answer", execution_id=run_id, answer={})
                assert refused.code == "APPROVER_REQUIRED"
            bob = await owner.new_caller("*", name="bob", kind="person")
            await bob.call("execution.answer", execution_id=run_id, answer={})

    asyncio.run(body())
