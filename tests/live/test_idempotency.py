"""Idempotency keys on a live server: a call happens once, whoever repeats it, and however often the server restarts."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from penstock.runtime.stores.sqlite.schema.log_notes import NotedConnection
from tests.live.parallel import Call, at_once
from tests.live.rest.seeds import APPROVE, COUNT, SIGNALLED
from tests.live.rest.servers import Answer, LiveServer, serving
from tests.live.tenants import Member, member
from tests.waiting import SECONDS_MAX

CALLERS = 20
START = "workflows/approve/executions"


@pytest.fixture
def running(tmp_path: Path) -> Iterator[LiveServer]:
    """A server of its own for each test, with three workflows."""
    with serving(tmp_path, PENSTOCK_SERVER_STREAMS_HEARTBEAT_SECONDS="1") as server:
        for document in (COUNT, APPROVE, SIGNALLED):
            server.call("POST", "workflows", {"document": document})
        yield server


def keyed(server: LiveServer, method: str, path: str, body: Any, key: str = "k-1") -> Answer:
    return server.request(method, path, body, headers={"Idempotency-Key": key})


def executions(server: LiveServer) -> list[str]:
    return [item["execution_id"] for item in server.call("GET", "executions?limit=500")["items"]]


def test_of_many_equal_calls_at_once_one_happens(running: LiveServer) -> None:
    owner = Member(running, running.key)
    call = Call("POST", START, {"input": {"a": 1}}, {"Idempotency-Key": "k-1"})
    answers = at_once(owner, [call] * CALLERS)
    assert {answer.status for answer in answers} <= {202, 409}
    assert {answer.json()["code"] for answer in answers if answer.status == 409} <= {"IDEMPOTENCY_IN_FLIGHT"}
    (execution_id,) = executions(running)
    told = Counter(answer.json()["execution_id"] for answer in answers if answer.status == 202)
    assert set(told) == {execution_id}
    later = at_once(owner, [call] * CALLERS)
    assert {(answer.status, answer.headers.get("idempotency-replayed")) for answer in later} == {(202, "true")}
    assert {answer.body for answer in later} == {answer.body for answer in answers if answer.status == 202}
    assert executions(running) == [execution_id]


def test_the_first_answer_is_given_again_after_a_restart_and_after_a_crash(running: LiveServer) -> None:
    made = {
        "execution": ("POST", START, {"execution_id": "own", "sync": False}),
        "start": ("POST", "workflows/count/executions", {"input": {"number": 2}, "sync": True}),
        "workflow": ("POST", "workflows", {"id": "new", "tasks": [{"id": "done", "type": "end"}]}),
        "schedule": ("POST", "schedules", {"workflow_id": "count", "cron": "0 3 * * *", "input": {"number": 1}}),
        "schema": ("POST", "schemas", {"id": "order", "schema": {}}),
        "webhook": ("POST", "webhooks", {"url": "https://example.com/events"}),
        "key": ("POST", "keys", {"name": "other", "scopes": ["execution:read"]}),
        "function": ("POST", "control/workflow_start", {"definition": COUNT, "input": {"number": 3}}),
    }
    first = {name: keyed(running, *call, key=name) for name, call in made.items()}
    assert {answer.status for answer in first.values()} <= {200, 201, 202}
    before = executions(running)
    for end in (running.stop, running.kill):
        end()
        running.start()
        for name, call in made.items():
            again = keyed(running, *call, key=name)
            assert (again.status, again.headers["idempotency-replayed"]) == (first[name].status, "true"), name
            assert again.headers.get("location") == first[name].headers.get("location")
            assert again.headers.get("etag") == first[name].headers.get("etag")
            assert again.json() == first[name].json()
        assert executions(running) == before


def test_a_key_with_other_arguments_is_refused_and_nothing_happens(running: LiveServer) -> None:
    assert keyed(running, "POST", START, {"input": {"a": 1}}).status == 202
    for body in ({"input": {"a": 2}}, {"input": {"a": 1}, "labels": {"b": "c"}}, {}):
        refused = keyed(running, "POST", START, body)
        assert (refused.status, refused.json()["code"]) == (422, "IDEMPOTENCY_KEY_REUSED")
    refused = keyed(running, "POST", "workflows/signalled/executions", {"input": {"a": 1}})
    assert refused.json()["code"] == "IDEMPOTENCY_KEY_REUSED"
    # For another operation, another caller and another tenant it is another key.
    assert keyed(running, "POST", "workflows/signalled/executions", {}, key="k-2").status == 202
    assert keyed(running, "POST", "schemas", {"id": "order", "schema": {}}).status == 201
    for tenant in ("default", "acme"):
        other = member(running, tenant)
        if tenant == "acme":
            other.call("POST", "workflows", {"document": APPROVE})
        assert other.request("POST", START, {"input": {"a": 3}}, Idempotency_Key="k-1").status == 202
    assert len(executions(running)) == 3


def test_a_refused_call_can_be_mended_and_made_with_the_same_key(running: LiveServer) -> None:
    path = "workflows/count/executions"
    assert keyed(running, "POST", path, {"input": {"number": "many"}}).status == 422
    assert keyed(running, "POST", path, {"input": {"number": 1}, "sync": True}).status == 200
    assert keyed(running, "POST", "workflows/later/executions", {}, key="k-2").status == 404
    running.call("POST", "workflows", {"id": "later", "tasks": [{"id": "done", "type": "end"}]})
    assert keyed(running, "POST", "workflows/later/executions", {}, key="k-2").status == 202


def test_a_call_that_a_crash_cut_off_happens_once_when_it_is_repeated(running: LiveServer) -> None:
    """The claim is left by the dead process; the run that was started is found by the id made from the key."""
    first = keyed(running, "POST", START, {"input": {"a": 1}})
    running.kill()
    with sqlite3.connect(
        running.folder / "penstock.db", factory=NotedConnection
    ) as file:  # as if it had died before it kept its answer
        changed = file.execute("DELETE FROM calls").rowcount
    file.close()
    assert changed == 1
    running.start()
    again = keyed(running, "POST", START, {"input": {"a": 1}})
    assert (again.status, again.json()["execution_id"]) == (202, first.json()["execution_id"])
    assert "idempotency-replayed" not in again.headers
    assert len(executions(running)) == 1
    differs = keyed(running, "POST", START, {"input": {"a": 2}})
    assert (differs.status, differs.json()["code"]) == (422, "IDEMPOTENCY_KEY_REUSED")


def test_signals_and_answers_with_a_key_count_once(running: LiveServer) -> None:
    owner = Member(running, running.key)
    running.call("POST", "workflows/signalled/executions", {"execution_id": "s"})
    signal = Call("POST", "executions/s/signals", {"name": "go", "payload": 1}, {"Idempotency-Key": "k-1"})
    at_once(owner, [signal] * CALLERS)
    assert at_once(owner, [signal])[0].status == 202
    history = running.call("GET", "executions/s/history?limit=500")["items"]
    assert sum(record["name"] == "SignalReceived" for record in history) == 1
    running.call("POST", START, {"execution_id": "q"})
    answer = Call("POST", "executions/q/answers", {"answer": {"ok": True}}, {"Idempotency-Key": "k-1"})
    answers = at_once(owner, [answer] * CALLERS)
    assert {item.status for item in answers} <= {200, 409}
    assert at_once(owner, [answer])[0].status == 200


@pytest.mark.parametrize("key", ["x" * 256, "", " ", "ä", "a, b"])
def test_a_strange_key_is_refused_or_works(running: LiveServer, key: str) -> None:
    answers = [keyed(running, "POST", START, {}, key=key) for _ in range(2)]
    assert answers[0].status == answers[1].status
    assert answers[0].status in (202, 400, 422)
    if answers[0].status == 202:
        assert len({answer.json()["execution_id"] for answer in answers}) == (1 if key.strip() else 2)


# --- keys that are revoked -----------------------------------------------------------------------


def revoke_elsewhere(server: LiveServer, key_id: str) -> None:
    """Revoke a key as another process on the same file does."""
    command = [sys.executable, "-m", "penstock", "key", "revoke", key_id, "--db", "penstock.db"]
    subprocess.run(command, cwd=server.folder, check=True, capture_output=True, timeout=SECONDS_MAX)


def test_a_key_that_another_process_revoked_fails_on_the_next_request(running: LiveServer) -> None:
    made = running.call("POST", "keys", {"name": "worker", "scopes": ["execution:read", "workflow:run"]})
    worker = Member(running, made["secret"])
    body = {"execution_id": "mine"}
    assert worker.request("POST", START, body, Idempotency_Key="k-1").status == 202
    revoke_elsewhere(running, made["key"]["id"])
    for answer in (
        worker.request("GET", "executions/mine"),
        worker.request("POST", START, body, Idempotency_Key="k-1"),
    ):
        assert (answer.status, answer.json()["code"]) == (401, "KEY_REVOKED")
    assert running.call("GET", f"keys/{made['key']['id']}")["status"] == "revoked"


@pytest.mark.parametrize("elsewhere", [True, False], ids=["another process", "this server"])
def test_an_open_stream_ends_when_its_key_is_revoked(running: LiveServer, elsewhere: bool) -> None:
    made = running.call("POST", "keys", {"name": "watcher", "scopes": ["execution:read"]})
    running.call("POST", START, {"execution_id": "q"})
    connection = HTTPConnection("127.0.0.1", running.port, timeout=SECONDS_MAX)
    connection.request("GET", "/api/v0/executions/q/stream", headers={"Authorization": f"Bearer {made['secret']}"})
    response = connection.getresponse()
    assert response.status == 200
    while b"waiting_input" not in response.readline():
        pass
    if elsewhere:
        revoke_elsewhere(running, made["key"]["id"])
    else:
        running.call("POST", f"keys/{made['key']['id']}/revoke", {})
    # What happens after the key was revoked is not told any more.
    running.call("POST", "executions/q/answers", {"answer": {"ok": True}})
    rest = response.read().decode()
    connection.close()
    assert "event: closed" in rest
    assert "KEY_REVOKED" in rest
    assert "complete" not in rest
