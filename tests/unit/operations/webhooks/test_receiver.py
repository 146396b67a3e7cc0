"""Webhooks that are received: what starts or signals runs, what is refused, and that everything counts once."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.base.clock import ManualClock
from penstock.base.errors import PenstockError
from penstock.governance.webhook_signatures import sign_request, standard_headers
from penstock.operations.catalogue.errors import mapping_of
from penstock.operations.catalogue.reasons import REASONS
from penstock.operations.gate.context import WebhookChoices
from penstock.operations.webhooks import receiver
from penstock.operations.webhooks.receiver import HookAnswer, WebhookReceiver
from penstock.operations.webhooks.requests import HookRequest
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.platform import CallRecord, ClaimOutcome
from penstock.runtime.tables.call_records import record_call, release_call
from tests.unit.operations.conftest import Caller, OpenGate, change_services
from tests.waiting import SECONDS_MAX

SECRET = "a good secret"


def flow(name: str = "orders", /, *, input: Any = None, **webhook: Any) -> dict[str, Any]:
    trigger: dict[str, Any] = {"webhook": {"path": "/hooks/orders", "secret": "${secret:HOOK_KEY}", **webhook}}
    if input is not None:
        trigger["input"] = input
    return {
        "penstock": "v1",
        "name": name,
        "secrets": ["HOOK_KEY"],
        "input": {"type": "object", "properties": {"amount": {"type": "number"}}},
        "triggers": [trigger],
        "nodes": [{"id": "done", "type": "end", "output": {"got": "${ .input }"}}],
    }


WAITS: dict[str, Any] = {
    "penstock": "v1",
    "name": "waits",
    "secrets": ["HOOK_KEY"],
    "triggers": [
        {
            "id": "payment",
            "webhook": {
                "path": "payments",
                "secret": "${secret:HOOK_KEY}",
                "action": "signal",
                "signal": "paid",
                "run": ".body.order",
            },
            "input": {"amount": "${ .body.amount }"},
        }
    ],
    "nodes": [{"id": "payment", "type": "wait", "signal": "paid"}, {"id": "done", "type": "end"}],
}


@dataclass(slots=True)
class Sender:
    """Sends requests to /hooks."""

    caller: Caller
    receiver: WebhookReceiver

    async def send(  # noqa: PLR0913  # everything that a request has
        self,
        body: Any = None,
        *,
        path: str = "orders",
        method: str = "POST",
        headers: dict[str, str] | None = None,
        sign: bool = True,
        at_ms: int | None = None,
        query: str = "",
        media_type: str = "application/json",
    ) -> HookAnswer | PenstockError:
        content = body if isinstance(body, bytes) else msgspec.json.encode(body)
        now = self.caller.gate.services.clock.now_ms() if at_ms is None else at_ms
        found = {"content-type": media_type, **(headers or {})}
        if sign:
            found["x-penstock-signature"] = sign_request(SECRET, content, now_ms=now)
        return await self.receiver.receive(
            HookRequest(path=path, method=method, headers=found, query_string=query, body=content, request_id="test")
        )

    async def accepted(self, body: Any = None, **more: Any) -> str:
        answer = await self.send(body, **more)
        assert isinstance(answer, HookAnswer), answer
        assert answer.status == "accepted", answer
        assert answer.execution_id is not None
        return answer.execution_id

    async def status(self, body: Any = None, **more: Any) -> str:
        answer = await self.send(body, **more)
        return answer.status if isinstance(answer, HookAnswer) else answer.code

    async def output(self, execution_id: str) -> Any:
        await self.caller.penstock.host.wait_for_end(execution_id, timeout_seconds=240)
        return (await self.caller.call("execution.status", execution_id=execution_id))["output"]


def run(open_caller: OpenGate, test: Callable[[Sender], Awaitable[None]], *documents: dict[str, Any]) -> None:
    async def body() -> None:
        async with asyncio.timeout(SECONDS_MAX), open_caller() as caller:
            change_services(caller.gate, resolve_secret={"HOOK_KEY": SECRET, "TENANT_ACME__HOOK_KEY": SECRET}.get)
            for document in documents or (flow(),):
                await caller.call("workflow.create", document=document)
            await test(Sender(caller, WebhookReceiver.of(caller.gate)))

    asyncio.run(body())


# --- what starts and signals ---------------------------------------------------------------------


def test_a_signed_request_starts_a_run_with_its_body_as_input(open_caller: OpenGate) -> None:
    async def test(sender: Sender) -> None:
        execution_id = await sender.accepted({"amount": 7})
        assert await sender.output(execution_id) == {"got": {"amount": 7}}
        view = await sender.caller.call("execution.status", execution_id=execution_id)
        assert view["labels"] == {"webhook": "orders:0"}

    run(open_caller, test)


def test_the_input_is_made_from_the_request(open_caller: OpenGate) -> None:
    template = {
        "amount": "${ .body.total * 2 }",
        "who": '${ .headers["x-request-id"] }',
        "kind": "${ .query.kind }",
        "how": "${ .method } ${ .path }",
    }

    async def test(sender: Sender) -> None:
        execution_id = await sender.accepted({"total": 4}, headers={"x-request-id": "Ada"}, query="kind=new")
        got = (await sender.output(execution_id))["got"]
        assert got == {"amount": 8, "who": "Ada", "kind": "new", "how": "POST orders"}

    run(open_caller, test, flow(input=template))


def test_credentials_and_signatures_do_not_reach_expressions(open_caller: OpenGate) -> None:
    async def test(sender: Sender) -> None:
        hidden = {"authorization": "Bearer x", "cookie": "c=1", "x-api-key": "k", "x-other-signature": "s"}
        hidden |= {"x-github-token": "t", "x-whatever": "w", "webhook-secret": "z"}
        execution_id = await sender.accepted({}, headers={**hidden, "x-request-id": "Ada"})
        got = (await sender.output(execution_id))["got"]
        assert got["all"] == {"content-type": "application/json", "x-request-id": "Ada"}

    run(open_caller, test, flow(input={"all": "${ .headers }"}))


@pytest.mark.parametrize("path", ["orders", "/orders", "orders/", "hooks/orders", "//orders"])
def test_a_path_is_the_same_however_it_is_written(open_caller: OpenGate, path: str) -> None:
    async def test(sender: Sender) -> None:
        assert await sender.status({}, path=path) == "accepted"

    run(open_caller, test)


def test_a_signal_reaches_the_run_that_the_request_names(open_caller: OpenGate) -> None:
    async def test(sender: Sender) -> None:
        await sender.caller.call("workflow.execute", workflow_id="waits", execution_id="order-7")
        assert await sender.accepted({"order": "order-7", "amount": 5}, path="payments") == "order-7"
        state = await sender.caller.penstock.host.wait_for_end("order-7", timeout_seconds=240)
        assert state is not None
        assert state.terminal
        history = (await sender.caller.call("execution.history", execution_id="order-7"))["items"]
        received = next(item for item in history if item["name"] == "SignalReceived")
        assert received["payload"]["payload"] == {"amount": 5}

    run(open_caller, test, WAITS)


def test_a_signal_reaches_only_runs_of_its_own_workflow(open_caller: OpenGate) -> None:
    async def test(sender: Sender) -> None:
        other = {**WAITS, "name": "others", "triggers": [], "secrets": []}
        await sender.caller.call("workflow.create", document=other)
        await sender.caller.call("workflow.execute", workflow_id="others", execution_id="theirs")
        for name in ("theirs", "nobody"):
            assert await sender.status({"order": name}, path="payments") == "EXECUTION_NOT_FOUND"

    run(open_caller, test, WAITS)


def test_tenants_have_addresses_of_their_own(open_caller: OpenGate) -> None:
    async def test(sender: Sender) -> None:
        other = await sender.caller.new_caller("*", tenant="acme")
        await other.call("workflow.create", document=flow(input={"from": "acme"}))
        theirs = await sender.accepted({}, path="@acme/orders")
        assert (await other.call("execution.status", execution_id=theirs))["input"] == {"from": "acme"}
        assert (await sender.caller.refusal("execution.status", execution_id=theirs)).code == "EXECUTION_NOT_FOUND"
        ours = await sender.accepted({}, path="orders")
        assert (await sender.caller.call("execution.status", execution_id=ours))["input"] == {}
        assert await sender.status({}, path="nobody/orders") == "WEBHOOK_NOT_FOUND"
        assert await sender.status({}, path="default/orders") == "WEBHOOK_NOT_FOUND"

    run(open_caller, test)


@pytest.mark.parametrize(
    ("strategy", "headers"),
    [
        (
            "github",
            lambda body, now: {"x-hub-signature-256": f"sha256={hmac.digest(SECRET.encode(), body, 'sha256').hex()}"},
        ),
        ("stripe", lambda body, now: {"stripe-signature": sign_request(SECRET, body, now_ms=now)}),
        ("standard", lambda body, now: standard_headers((SECRET.encode(),), "msg_1", body, now_ms=now)),
    ],
)
def test_other_senders_sign_in_their_own_way(open_caller: OpenGate, strategy: str, headers: Any) -> None:
    async def test(sender: Sender) -> None:
        body = b'{"amount": 1}'
        right = headers(body, sender.caller.gate.services.clock.now_ms())
        assert await sender.status(body, sign=False, headers=right) == "accepted"
        assert await sender.status(body + b" ", sign=False, headers=right) == "WEBHOOK_SIGNATURE_INVALID"
        assert await sender.status(body) == "WEBHOOK_SIGNATURE_MISSING"

    run(open_caller, test, flow(verify={"strategy": strategy}))


def test_forms_and_texts_are_read_too(open_caller: OpenGate) -> None:
    async def test(sender: Sender) -> None:
        form = await sender.accepted(b"a=1&b=x+y", media_type="application/x-www-form-urlencoded")
        assert await sender.output(form) == {"got": {"body": {"a": "1", "b": "x y"}}}
        text = await sender.accepted("grüße".encode(), media_type="text/plain; charset=utf-8")
        assert await sender.output(text) == {"got": {"body": "grüße"}}
        empty = await sender.accepted(b"", media_type="application/octet-stream")
        assert await sender.output(empty) == {"got": {"body": None}}

    run(open_caller, test, flow(input={"body": "${ .body }"}))


# --- once ----------------------------------------------------------------------------------------


def test_the_very_same_request_counts_once(open_caller: OpenGate) -> None:
    async def test(sender: Sender) -> None:
        now = sender.caller.gate.services.clock.now_ms()
        first = await sender.accepted({"amount": 1}, at_ms=now)
        again = await sender.send({"amount": 1}, at_ms=now)
        assert again == HookAnswer(status="duplicate", execution_id=first)
        assert await sender.status({"amount": 1}, at_ms=now - 1_000) == "accepted"
        assert len((await sender.caller.call("execution.list"))["items"]) == 2

    run(open_caller, test)


def test_what_makes_a_request_unique_can_be_said(open_caller: OpenGate) -> None:
    async def test(sender: Sender) -> None:
        first = await sender.accepted({"id": 7, "amount": 1})
        again = await sender.send({"id": 7, "amount": 2})
        assert again == HookAnswer(status="duplicate", execution_id=first)
        assert await sender.status({"id": 8}) == "accepted"
        assert await sender.status({"id": "7"}) == "accepted"

    run(open_caller, test, flow(dedupe=".body.id"))


def test_a_refused_request_can_be_sent_again(open_caller: OpenGate) -> None:
    async def test(sender: Sender) -> None:
        assert await sender.status({"id": 1, "amount": "much"}) == "INPUT_INVALID"
        assert await sender.status({"id": 1, "amount": 5}) == "accepted"
        assert await sender.status({"id": 1, "amount": 5}) == "duplicate"

    run(open_caller, test, flow(dedupe=".body.id"))


def test_two_at_once_start_one_run(open_caller: OpenGate) -> None:
    async def test(sender: Sender) -> None:
        found = await asyncio.gather(*(sender.status({"id": 1, "n": number}) for number in range(8)))
        assert found.count("accepted") == 1
        assert set(found) <= {"accepted", "duplicate", "IDEMPOTENCY_IN_FLIGHT"}
        assert len((await sender.caller.call("execution.list"))["items"]) == 1

    run(open_caller, test, flow(dedupe=".body.id"))


def test_a_crash_after_the_start_starts_nothing_twice(open_caller: OpenGate, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(sender: Sender) -> None:
        async def dies(database: Database, call: CallRecord) -> ClaimOutcome:
            if call.claim is not None and call.claim.operation == "webhook" and call.answer is not None:
                await release_call(database, call.claim)  # as if its time had run out
                raise RuntimeError("the process died")
            return await record_call(database, call)

        monkeypatch.setattr(receiver, "record_call", dies)
        assert await sender.status({"id": 1, "amount": 1}) == "INTERNAL_ERROR"
        monkeypatch.undo()
        assert await sender.status({"id": 1, "amount": 1}) == "accepted"
        assert await sender.status({"id": 1, "amount": 2}) == "duplicate"
        assert len((await sender.caller.call("execution.list"))["items"]) == 1

    run(open_caller, test, flow(dedupe=".body.id"))


def test_a_run_can_be_named_by_the_request(open_caller: OpenGate) -> None:
    async def test(sender: Sender) -> None:
        assert await sender.accepted({"order": "A-7"}) == "A-7"
        assert await sender.accepted({"order": 12}) == "12"
        for wrong in ("../x", "a b", "", None, True, [1], "x" * 200, "r~2"):
            assert await sender.status({"order": wrong}) == "WEBHOOK_RUN_INVALID"

    run(open_caller, test, flow(run=".body.order"))


# --- refusals ------------------------------------------------------------------------------------


def test_filtered_requests_start_nothing_and_say_so(open_caller: OpenGate) -> None:
    async def test(sender: Sender) -> None:
        assert await sender.status({"kind": "order"}) == "accepted"
        assert await sender.status({"kind": "other"}) == "filtered"
        assert await sender.status({}) == "filtered"
        assert len((await sender.caller.call("execution.list"))["items"]) == 1

    run(open_caller, test, flow(filter='.body.kind == "order"'))


@pytest.mark.parametrize(
    ("more", "code", "status"),
    [
        ({"path": "nothing"}, "WEBHOOK_NOT_FOUND", 404),
        ({"path": ""}, "WEBHOOK_NOT_FOUND", 404),
        ({"path": "../../orders"}, "WEBHOOK_NOT_FOUND", 404),
        ({"method": "PUT"}, "METHOD_NOT_ALLOWED", 405),
        ({"sign": False}, "WEBHOOK_SIGNATURE_MISSING", 401),
        ({"headers": {"x-penstock-signature": "t=1,v1=00"}, "sign": False}, "WEBHOOK_SIGNATURE_INVALID", 401),
        ({"at_ms": 1_000}, "WEBHOOK_SIGNATURE_EXPIRED", 401),
        ({"body": b"{nonsense"}, "MALFORMED_JSON", 400),
        ({"body": b"\xff\xfe"}, "MALFORMED_JSON", 400),
        ({"body": b"[" * 100_000}, "MALFORMED_JSON", 400),
        ({"body": b"[" * 200 + b"]" * 200}, "ARGUMENTS_TOO_DEEP", 400),
        ({"body": b"<x/>", "media_type": "application/xml"}, "UNSUPPORTED_MEDIA_TYPE", 415),
        ({"body": b"\xff", "media_type": "text/plain"}, "MALFORMED_REQUEST", 400),
        ({"body": {"amount": "much"}}, "INPUT_INVALID", 422),
        ({"body": [1]}, "INPUT_INVALID", 422),
        ({"query": "&".join(f"a{number}=1" for number in range(2_000))}, "MALFORMED_REQUEST", 400),
    ],
)
def test_what_cannot_be_taken_is_refused(open_caller: OpenGate, more: dict[str, Any], code: str, status: int) -> None:
    async def test(sender: Sender) -> None:
        answer = await sender.send(more.pop("body", {}), **more)
        assert isinstance(answer, PenstockError), answer
        assert answer.code == code
        assert mapping_of(answer).status == status
        assert code in REASONS
        assert (await sender.caller.call("execution.list"))["items"] == []

    run(open_caller, test)


def test_a_body_must_fit_the_schema_of_the_webhook(open_caller: OpenGate) -> None:
    async def test(sender: Sender) -> None:
        answer = await sender.send({"order": 7})
        assert isinstance(answer, PenstockError)
        assert answer.code == "WEBHOOK_BODY_INVALID"
        assert (
            answer.details["errors"]
            == [
                {"pointer": "/order", "keyword": "type", "message": "must be string"},
            ]
            or answer.details["errors"]
        )
        assert await sender.status({"order": "A"}) == "accepted"

    schema = {"type": "object", "required": ["order"], "properties": {"order": {"type": "string"}}}
    run(open_caller, test, flow(schema=schema))


@pytest.mark.parametrize(
    "part", [{"filter": ".body + 1"}, {"dedupe": ".body | tonumber"}, {"input": "${ .body | keys[0] + 1 }"}]
)
def test_an_expression_that_fails_refuses_the_request(open_caller: OpenGate, part: dict[str, Any]) -> None:
    async def test(sender: Sender) -> None:
        assert await sender.status({"x": 1}) == "WEBHOOK_EXPRESSION_FAILED"

    run(open_caller, test, flow(**part))


def test_an_expression_that_never_ends_is_stopped(open_caller: OpenGate) -> None:
    async def test(sender: Sender) -> None:
        assert await sender.status({"x": 1}) == "WEBHOOK_EXPRESSION_FAILED"

    run(open_caller, test, flow(filter="def f: f; f"))


def test_unsigned_webhooks_need_the_operators_permission(open_caller: OpenGate) -> None:
    async def test(sender: Sender) -> None:
        assert await sender.status({}, sign=False) == "WEBHOOK_SIGNATURE_MISSING"
        listed = (await sender.caller.call("trigger.list"))["items"]
        assert "unsigned" in listed[0]["problem"]
        change_services(sender.caller.gate, webhooks=WebhookChoices(allow_unsigned=True))
        first, second = await sender.accepted({}, sign=False), await sender.accepted({}, sign=False)
        assert first != second

    run(open_caller, test, flow(verify={"strategy": "none"}))


def test_a_secret_that_is_not_configured_is_named(open_caller: OpenGate) -> None:
    async def test(sender: Sender) -> None:
        change_services(sender.caller.gate, resolve_secret=lambda name: None)
        answer = await sender.send({})
        assert isinstance(answer, PenstockError)
        assert answer.code == "WEBHOOK_SECRET_MISSING"
        assert SECRET not in str(answer)

    run(open_caller, test)


def test_disabled_and_deleted_webhooks_are_gone_at_once(open_caller: OpenGate) -> None:
    async def test(sender: Sender) -> None:
        assert await sender.status({}) == "accepted"
        document = flow()
        document["triggers"][0]["enabled"] = False
        await sender.caller.call("workflow.update", workflow_id="orders", document=document)
        assert await sender.status({"n": 1}) == "WEBHOOK_NOT_FOUND"
        await sender.caller.call("workflow.update", workflow_id="orders", document=flow(method="PUT"))
        sender.receiver = WebhookReceiver.of(sender.caller.gate)
        assert await sender.status({"n": 2}, method="PUT") == "accepted"
        await sender.caller.call("workflow.delete", workflow_id="orders")
        assert await sender.status({"n": 3}, method="PUT") == "WEBHOOK_NOT_FOUND"

    run(open_caller, test)


def test_two_workflows_at_one_address_start_neither(open_caller: OpenGate) -> None:
    async def test(sender: Sender) -> None:
        refused = await sender.caller.refusal("workflow.create", document=flow("two"))
        assert refused.code == "NAME_TAKEN"
        # As a release left it that did not know whose an address is.
        store: Any = sender.caller.gate.services.store
        await store.database.writer.submit(lambda connection: connection.execute("DELETE FROM claimed_names"))
        await sender.caller.call("workflow.create", document=flow("two"))
        assert await sender.status({}) == "WEBHOOK_PATH_TAKEN"
        problems = [item["problem"] for item in (await sender.caller.call("trigger.list"))["items"]]
        assert all("several workflows" in problem for problem in problems)

    run(open_caller, test, flow("one"))


def test_rates_hold_for_webhooks_too(open_caller: OpenGate) -> None:
    async def body() -> None:
        async with open_caller(write_per_minute=60) as caller:
            change_services(caller.gate, resolve_secret={"HOOK_KEY": SECRET, "TENANT_ACME__HOOK_KEY": SECRET}.get)
            await caller.call("workflow.create", document=flow())
            sender = Sender(caller, WebhookReceiver.of(caller.gate))
            found = [await sender.status({"n": number}) for number in range(40)]
            assert "RATE_LIMITED" in found

    asyncio.run(body())


# --- lists and records ---------------------------------------------------------------------------


def test_triggers_are_listed_with_their_addresses(open_caller: OpenGate) -> None:
    async def test(sender: Sender) -> None:
        change_services(sender.caller.gate, webhooks=WebhookChoices(public_url="https://penstock.example/"))
        items = (await sender.caller.call("trigger.list"))["items"]
        assert [(item["workflow_id"], item["url"], item["action"], item["secret"]) for item in items] == [
            ("orders", "https://penstock.example/hooks/orders", "start", "HOOK_KEY"),
            ("waits", "https://penstock.example/hooks/payments", "signal", "HOOK_KEY"),
        ]
        only = (await sender.caller.call("trigger.list", workflow_id="waits"))["items"]
        assert [item["id"] for item in only] == ["payment"]
        other = await sender.caller.new_caller("workflow:*", tenant="acme")
        await other.call("workflow.create", document=flow())
        theirs = (await other.call("trigger.list"))["items"]
        assert [item["url"] for item in theirs] == ["https://penstock.example/hooks/@acme/orders"]

    run(open_caller, test, flow(), WAITS)


def test_every_outcome_is_in_the_audit_trail(open_caller: OpenGate) -> None:
    async def test(sender: Sender) -> None:
        caller = sender.caller
        execution_id = await sender.accepted({"kind": "order"})
        for _ in range(3):
            await sender.status({"kind": "order"}, sign=False)
        await sender.status({"kind": "other"})
        await sender.status({"kind": "order", "amount": "much"})
        await caller.gate.flush()
        records = [item for item in (await caller.call("audit.list"))["items"] if item["surface"] == "webhook"]
        found = {(item["operation"], item["outcome"], item["code"], item["count"]) for item in records}
        assert found == {
            ("workflow.execute", "allowed", None, 1),
            ("workflow.execute", "refused", "INPUT_INVALID", 1),
            ("webhook.receive", "refused", "WEBHOOK_SIGNATURE_MISSING", 3),
            ("webhook.receive", "allowed", None, 1),
        }
        assert {item["principal"] for item in records} == {"webhook:default:orders:orders:0"}
        assert execution_id

    run(open_caller, test, flow(filter='.body.kind == "order"'))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    body=st.one_of(st.binary(max_size=300), st.text(max_size=100).map(lambda text: text.encode("utf-8", "replace"))),
    path=st.text(max_size=40),
    query=st.text(max_size=60),
    media_type=st.sampled_from(["application/json", "text/plain", "application/x-www-form-urlencoded", "", "x/y", ";"]),
)
def test_nothing_that_is_sent_fails_the_server(
    open_caller: OpenGate, body: bytes, path: str, query: str, media_type: str
) -> None:
    async def test() -> None:
        async with open_caller() as caller:
            change_services(caller.gate, resolve_secret={"HOOK_KEY": SECRET, "TENANT_ACME__HOOK_KEY": SECRET}.get)
            await caller.outcome("workflow.create", document=flow(dedupe=".body", input={"q": "${ .query }"}))
            sender = Sender(caller, WebhookReceiver.of(caller.gate))
            for where in (path, "orders"):
                found = await sender.status(body, path=where, query=query, media_type=media_type)
                assert found != "INTERNAL_ERROR"

    asyncio.run(test())


def test_a_trigger_starts_what_whoever_stored_it_may_start_now(open_caller: OpenGate) -> None:
    child: dict[str, Any] = {"penstock": "v1", "name": "child", "nodes": [{"id": "done", "type": "end"}]}
    nodes = [{"id": "child", "type": "subworkflow", "workflow": "child"}, {"id": "done", "type": "end"}]
    document = {**flow(), "governance": {"scopes": ["shop:refund"]}, "nodes": nodes}

    async def test(sender: Sender) -> None:
        author = await sender.caller.new_caller("workflow:*", "shop:refund")
        await author.call("workflow.create", document=document)
        await sender.accepted({"amount": 7})
        # Now the child asks for more than the author of the trigger has.
        closed = {**child, "governance": {"scopes": ["shop:admin"]}}
        await sender.caller.call("workflow.update", workflow_id="child", document=closed)
        assert await sender.status({"amount": 8}) == "SCOPE_REQUIRED"

    run(open_caller, test, child)


async def made_by_another(sender: Sender, *documents: dict[str, Any], **key: Any) -> tuple[Caller, str]:
    """Somebody who stored workflows, and the id of their key."""
    made = await sender.caller.call("key.create", name="author", scopes=["workflow:*"], **key)
    author = sender.caller.with_key(made["secret"])
    for document in documents:
        await author.call("workflow.create", document=document)
    return author, made["key"]["id"]


async def refusals(sender: Sender) -> set[tuple[str, str, str, int]]:
    """What the audit trail says of requests that were refused before any call: who, for whom, why, how often."""
    await sender.caller.gate.flush()
    listed = (await sender.caller.call("audit.list", operation="webhook.receive", outcome="refused"))["items"]
    return {(item["principal"], item["acting_for"][0], item["code"], item["count"]) for item in listed}


def test_a_trigger_of_a_revoked_key_neither_starts_nor_signals_anything(open_caller: OpenGate) -> None:
    async def test(sender: Sender) -> None:
        _, key_id = await made_by_another(sender, flow(), WAITS)
        await sender.accepted({"amount": 7})
        order = (await sender.caller.call("workflow.execute", workflow_id="waits"))["execution_id"]
        before = len((await sender.caller.call("execution.list"))["items"])
        await sender.caller.call("key.revoke", key_id=key_id)
        assert await sender.status({"amount": 8}) == "KEY_REVOKED"
        assert await sender.status({"amount": 8}) == "KEY_REVOKED", "what was refused does not count as received"
        assert await sender.status({"order": order, "amount": 9}, path="payments") == "KEY_REVOKED"
        assert len((await sender.caller.call("execution.list"))["items"]) == before
        assert (await sender.caller.call("execution.status", execution_id=order))["status"] == "waiting_signal"
        assert await refusals(sender) == {
            ("webhook:default:orders:orders:0", f"key:{key_id}", "KEY_REVOKED", 2),
            ("webhook:default:waits:payment", f"key:{key_id}", "KEY_REVOKED", 1),
        }
        listed = (await sender.caller.call("trigger.list"))["items"]
        assert all("was revoked" in item["problem"] for item in listed), listed

    run(open_caller, test, {"penstock": "v1", "name": "other", "nodes": [{"id": "done", "type": "end"}]})


def test_a_sender_is_told_neither_the_key_nor_its_holder(open_caller: OpenGate) -> None:
    async def test(sender: Sender) -> None:
        _, key_id = await made_by_another(sender, flow(path="secretly"))
        await sender.caller.call("key.revoke", key_id=key_id)
        refused = await sender.send({"amount": 8}, path="secretly")
        assert isinstance(refused, PenstockError)
        assert "author" not in str(refused)
        assert key_id not in str(refused)

    run(open_caller, test, {"penstock": "v1", "name": "other", "nodes": [{"id": "done", "type": "end"}]})


def test_a_trigger_goes_on_with_the_key_that_replaced_its_makers(open_caller: OpenGate) -> None:
    async def test(sender: Sender) -> None:
        _, key_id = await made_by_another(sender, flow())
        await sender.caller.call("key.rotate", key_id=key_id, overlap="0s")
        await sender.accepted({"amount": 7})

    run(open_caller, test, {"penstock": "v1", "name": "other", "nodes": [{"id": "done", "type": "end"}]})


def test_a_trigger_of_an_expired_key_starts_nothing_until_somebody_else_stores_the_workflow(
    open_caller: OpenGate,
) -> None:
    async def test(sender: Sender) -> None:
        gate = sender.caller.gate
        await made_by_another(sender, flow(), expires_in="1h")
        await sender.accepted({"amount": 7})
        change_services(gate, clock=ManualClock(gate.services.clock.now_ms() + 2 * 3_600_000))
        assert await sender.status({"amount": 8}) == "KEY_EXPIRED"
        await sender.caller.call("workflow.update", workflow_id="orders", document={**flow(), "title": "Orders"})
        await sender.accepted({"amount": 8})

    run(open_caller, test, {"penstock": "v1", "name": "other", "nodes": [{"id": "done", "type": "end"}]})
