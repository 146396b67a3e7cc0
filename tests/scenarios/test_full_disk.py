"""While the disk is full, a server answers what only reads, refuses what changes something, and says why, quietly."""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from penstock.base import limits
from penstock.governance.webhook_signatures import sign_request
from penstock.operations.gate.pipeline import AnsweredCall, RefusedCall
from penstock.runtime.ports.platform import AuditQuery
from penstock.runtime.system import SystemClock
from penstock.runtime.tables.audit.records import list_audit
from tests.live.rest.servers import LiveServer, serving
from tests.scenarios.test_audited_changes import opened
from tests.scenarios.test_hanging_up import BOTH, modern
from tests.scenarios.test_repeated_calls import call, outcome
from tests.waiting import SECONDS_MAX, wait_until

DOCUMENT = {"penstock": "v1", "name": "a", "nodes": [{"id": "done", "type": "end"}]}
READS = ("workflows", "executions", "keys", "health", "audit", "workflows/a", "metrics", "/metrics", "/healthz")
CHANGES: tuple[tuple[str, Any], ...] = (
    ("workflows", {"document": {**DOCUMENT, "name": "b"}}),
    ("workflows/a/executions", {}),
    ("keys", {"name": "k", "scopes": ["*"]}),
)
TIMES = 10
LINES_MAX = 3
"""About as many things write in the background of an idle server; each says once that it could not."""


@contextmanager
def full_disk(server: LiveServer) -> Iterator[None]:
    """Let no file of the server grow, as a full disk would."""
    before = resource.prlimit(server.running.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.running.pid, resource.RLIMIT_FSIZE, (4_096, before[1]))
    try:
        yield
    finally:
        resource.prlimit(server.running.pid, resource.RLIMIT_FSIZE, before)


def is_ready(server: LiveServer) -> bool:
    return server.request("GET", "/readyz", key="").status == 200


def test_with_a_full_disk_reads_are_answered_and_changes_refused_with_few_lines_in_the_log(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        server.call("POST", "workflows", {"document": DOCUMENT})
        with full_disk(server):
            wrong: list[Any] = []
            for _ in range(TIMES):
                wrong += [(path, answer) for path in READS if (answer := server.request("GET", path)).status != 200]
                for path, body in CHANGES:
                    refused = server.request("POST", path, body)
                    if refused.status != 503 or "space" not in refused.json().get("hint", ""):
                        wrong.append((path, refused))
            assert not wrong, wrong[0]
            probe = server.request("GET", "/readyz", key="")
            assert (probe.status, probe.json()["checks"]["store"]) == (503, "STORE_FULL")
        wait_until(lambda: is_ready(server))
        server.stop()
        loud = [entry for entry in server.rest_of_log() if entry["event"] == "log" or "traceback" in entry]
        assert len(loud) <= LINES_MAX, loud
        assert not any("traceback" in entry for entry in loud), loud
        server.start()
        listed = server.call("GET", "audit?operation=key.list&limit=10")
        assert sum(item["count"] for item in listed["items"]) == TIMES, "every answered read is on record"


HOOKED: dict[str, Any] = {
    **DOCUMENT,
    "name": "hooked",
    "triggers": [{"webhook": {"path": "hooked", "secret": "${secret:HOOK_SECRET}"}}],
    "secrets": ["HOOK_SECRET"],
    "expose": {"tool": True},
}
AGENT = {"penstock": "v1", "name": "helper", "agent": {"model": "m", "instructions": "Help."}, "expose": {"a2a": True}}
INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
SECRET = "hook-secret-1234"
PAGES = ("", "/runs", "/workflows", "/approvals", "/audit", "/keys", "/schedules")


def shown(server: LiveServer, path: str, body: Any = None, **headers: str) -> Any:
    """The status and the text of an answer."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = server.request("GET" if body is None else "POST", path, body, headers=sent)
    return answer.status, answer.body.decode()


def test_with_a_full_disk_every_surface_answers_reads_and_refuses_changes(tmp_path: Path) -> None:
    with serving(tmp_path, PENSTOCK_SECRET_HOOK_SECRET=SECRET) as server:
        server.call("POST", "models", {"id": "m", "provider": "mock", "model": "m", "replies": ["hello"]})
        for document in (HOOKED, AGENT):
            server.call("POST", "workflows", {"document": document})
        form = urlencode({"key": server.key}).encode()
        kind = {"Content-Type": "application/x-www-form-urlencoded", "Origin": server.url}
        signed_in = server.request("POST", "/console/sign-in", form, headers=kind, key="")
        cookie = signed_in.headers["set-cookie"].split(";")[0]
        listed, listing = modern("tools/list")
        called, calling = modern("tools/call", name="hooked", arguments={})
        both = {"Accept": BOTH}
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
        send = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
        with full_disk(server):
            for number in range(TIMES):
                reads = [
                    shown(server, "/mcp", listing, **both, **listed),
                    shown(server, "/mcp", INITIALIZE, **both),
                    shown(server, "/a2a/helper/.well-known/agent-card.json"),
                    *(shown(server, f"/console{page}", Cookie=cookie) for page in PAGES),
                ]
                assert [answer for answer in reads if answer[0] != 200] == []
                hook = json.dumps({"n": number}).encode()
                changes = [
                    shown(server, "/mcp", calling, **both, **called),
                    shown(server, "/a2a/helper", {**send, "id": number}, A2A_Version="1.0"),
                    shown(
                        server,
                        "/hooks/hooked",
                        hook,
                        X_Penstock_Signature=sign_request(SECRET, hook, now_ms=SystemClock().now_ms()),
                    ),
                ]
                assert [answer for answer in changes if "STORE_FULL" not in answer[1]] == []
        wait_until(lambda: is_ready(server))
        server.stop()
        loud = [entry for entry in server.rest_of_log() if entry["event"] == "log" or "traceback" in entry]
        assert len(loud) <= LINES_MAX, loud
        assert not any("traceback" in entry for entry in loud), loud


@contextmanager
def full_disk_here() -> Iterator[None]:
    """Let no file of this process grow."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_096, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_reads_are_refused_once_their_records_fill_the_buffer_and_none_is_unrecorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = 5
    monkeypatch.setattr(limits, "AUDIT_READS_GATHERED_MAX", room)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    async def test() -> None:
        async with opened(tmp_path / "penstock.db") as (gate, _):
            for number in range(room + 2):
                await call(gate, "schema.create", id=f"s{number}", schema={"type": "object"})
            await call(gate, "schema.get", schema_id="s0")
            await gate.flush()
            with full_disk_here():
                changed = await outcome(gate, "schema.create", {"id": "more", "schema": {"type": "object"}})
                assert isinstance(changed, RefusedCall)
                assert changed.error.code == "STORE_FULL"
                found = [await outcome(gate, "schema.get", {"schema_id": f"s{number}"}) for number in range(room + 2)]
                again = await outcome(gate, "schema.get", {"schema_id": "s0"})
            assert [isinstance(item, AnsweredCall) for item in found] == [True] * room + [False] * 2
            assert isinstance(again, AnsweredCall), "a read that is counted already needs no room"
            await gate.flush()
            query = AuditQuery(tenant="default", operation="schema.get", outcome="allowed")
            records = (await list_audit(gate.services.platform, query)).records
            assert sum(record.entry.count for record in records) == 1 + room + 1

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))
