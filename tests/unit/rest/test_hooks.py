"""The addresses under /hooks, and deliveries, in a whole application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from penstock.app.gate import local_owner
from penstock.app.penstock import Penstock
from penstock.app.serving.server import ServerOptions, open_application
from penstock.governance.webhook_signatures import sign_request
from penstock.operations.gate.context import WebhookChoices
from penstock.operations.gate.pipeline import Gate
from tests.unit.operations.conftest import Caller
from tests.unit.operations.receiver import receiving
from tests.waiting import SECONDS_MAX

SECRET = "a good secret"
ORDERS: dict[str, Any] = {
    "penstock": "v1",
    "name": "orders",
    "secrets": ["HOOK_KEY"],
    "input": {"type": "object", "properties": {"order": {"type": "integer"}}},
    "triggers": [
        {"webhook": {"path": "/hooks/orders", "secret": "${secret:HOOK_KEY}", "filter": ".body.skip | not"}},
    ],
    "nodes": [{"id": "done", "type": "end", "output": {"got": "${ .input }"}}],
}


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[tuple[httpx2.AsyncClient, Caller, Gate]]:
    """The application with the workflow, and somebody who sends to it."""
    options = ServerOptions(webhooks=WebhookChoices(max_body_bytes=10_000, allow_private_addresses=True))
    async with (
        asyncio.timeout(SECONDS_MAX),
        Penstock.open(folder / "penstock.db", secrets={"HOOK_KEY": SECRET}.get, workflows=[ORDERS]) as penstock,
        open_application(penstock, options) as (app, gate),
        httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://penstock") as client,
    ):
        yield client, Caller(gate, local_owner(), penstock), gate


def signed(gate: Gate, body: bytes) -> dict[str, str]:
    signature = sign_request(SECRET, body, now_ms=gate.services.clock.now_ms())
    return {"x-penstock-signature": signature, "content-type": "application/json"}


def test_a_request_starts_a_run_without_an_api_key(tmp_path: Path) -> None:
    async def body() -> None:
        async with serving(tmp_path) as (client, caller, gate):
            content = b'{"order": 7}'
            headers = signed(gate, content)
            answer = await client.post("/hooks/orders", content=content, headers=headers)
            assert answer.status_code == 202
            assert answer.json()["status"] == "accepted"
            execution_id = answer.json()["execution_id"]
            await caller.penstock.host.wait_for_end(execution_id, timeout_seconds=240)
            view = await caller.call("execution.status", execution_id=execution_id)
            assert view["output"] == {"got": {"order": 7}}
            again = await client.post("/hooks/orders", content=content, headers=headers)
            assert (again.status_code, again.json()) == (200, {"status": "duplicate", "execution_id": execution_id})
            skipped = b'{"skip": true}'
            filtered = await client.post("/hooks/orders", content=skipped, headers=signed(gate, skipped))
            assert (filtered.status_code, filtered.json()) == (200, {"status": "filtered"})

    asyncio.run(body())


@pytest.mark.parametrize(
    ("method", "path", "content", "status", "code"),
    [
        ("POST", "/hooks/nothing", b"{}", 404, "WEBHOOK_NOT_FOUND"),
        ("POST", "/hooks/", b"{}", 404, "WEBHOOK_NOT_FOUND"),
        ("GET", "/hooks/orders", b"", 405, "METHOD_NOT_ALLOWED"),
        ("POST", "/hooks/orders", b"{", 400, "MALFORMED_JSON"),
        ("POST", "/hooks/orders", b'{"order": "x"}', 422, "INPUT_INVALID"),
        ("POST", "/hooks/orders", b" " * 10_001, 413, "BODY_TOO_LARGE"),
    ],
)
def test_every_refusal_is_a_problem_document(
    tmp_path: Path, method: str, path: str, content: bytes, status: int, code: str
) -> None:
    async def body() -> None:
        async with serving(tmp_path) as (client, _, gate):
            answer = await client.request(method, path, content=content, headers=signed(gate, content))
            assert answer.status_code == status
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["code"] == code
            assert answer.json()["request_id"] == answer.headers["x-request-id"]

    asyncio.run(body())


def test_an_unsigned_request_is_refused_and_learns_nothing(tmp_path: Path) -> None:
    async def body() -> None:
        async with serving(tmp_path) as (client, _, _):
            answer = await client.post("/hooks/orders", json={"order": 7})
            assert answer.status_code == 401
            assert SECRET not in answer.text
            assert "HOOK_KEY" not in answer.text

    asyncio.run(body())


def test_a_server_sends_events_from_its_start_on(tmp_path: Path) -> None:
    async def body() -> None:
        async with serving(tmp_path) as (client, caller, gate), receiving() as receiver:
            await caller.call("webhook.create", url=receiver.url, events=["run.completed"])
            content = msgspec.json.encode({"order": 8})
            answer = await client.post("/hooks/orders", content=content, headers=signed(gate, content))
            (event,) = await receiver.events(1)
            assert event["subject"] == answer.json()["execution_id"]
            assert event["source"] == "/api/v0/workflows/orders"
            assert event["data"]["labels"] == {"webhook": "orders:0"}

    asyncio.run(body())
