"""The Python client against a real server: every kind of call, streams over a crash, and a key that is revoked."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.base.errors import Conflict, Denied, NotFound, Rejected
from penstock.client import AsyncClient, CallDenied, CallFailed, CallNotFound, CallTimedOut, Client, StreamEvent
from tests.live.rest.servers import LiveServer, serving
from tests.waiting import SECONDS_MAX

GREET = """\
penstock: v1
name: greet
version: 1.2.0
input: {type: object, required: [name], properties: {name: {type: string}}}
nodes:
  - {id: done, type: end, output: {said: "Hello ${ .input.name }"}}
"""
WAIT = """\
penstock: v1
name: wait_for_go
nodes:
  - {id: go, type: wait, signal: go_ahead}
  - id: ask
    type: interrupt
    message: "Sure?"
    answer: {type: object, required: [ok], properties: {ok: {type: boolean}}}
  - {id: done, type: end, output: {got: "${ .go }", sure: "${ .ask.ok }"}}
"""


@pytest.fixture(scope="module")
def client(server: LiveServer) -> Iterator[Client]:
    with Client(server.url, server.key) as found:
        found.workflows.create(source=GREET)
        found.workflows.create(source=WAIT)
        yield found


def test_a_workflow_is_run_to_its_end(client: Client) -> None:
    run = client.executions.run("greet", {"name": "Ada"}, labels={"team": "support"}, timeout_seconds=SECONDS_MAX)
    assert (run.status, run.output, run.labels["team"]) == ("completed", {"said": "Hello Ada"}, "support")
    assert client.executions.status(run.execution_id) == run


def test_runs_that_move_are_followed(client: Client) -> None:
    run = client.executions.start("greet", {"name": "Ada"})
    moved = next(event for event in client.executions.changes() if event.event == "changed")
    assert run.execution_id in moved.data["executions"]


def test_a_run_that_waits_is_steered(client: Client) -> None:
    started = client.executions.start("wait_for_go", execution_id="steered")
    with pytest.raises(CallTimedOut):
        client.executions.wait_for_end("steered", timeout_seconds=0.2)
    client.executions.signal(started.execution_id, name="go_ahead", payload={"n": 1})
    asked = client.executions.wait("steered", wait_seconds=SECONDS_MAX)
    assert (asked.status, [question.node_id for question in asked.questions]) == ("waiting_input", ["ask"])
    with pytest.raises(Rejected, match="ANSWER_INVALID"):
        client.executions.answer("steered", answer={"ok": "perhaps"})
    client.executions.answer("steered", answer={"ok": True})
    ended = client.executions.wait_for_end("steered", timeout_seconds=SECONDS_MAX)
    assert ended.output == {"got": {"n": 1}, "sure": True}
    names = [record.name for record in client.executions.history_all("steered", limit=3)]
    assert (names[0], names[-1]) == ("ExecutionStarted", "ExecutionCompleted")


def test_lists_go_over_all_pages(client: Client) -> None:
    ids = {client.executions.start("greet", {"name": f"n{number}"}).execution_id for number in range(7)}
    for execution_id in ids:
        client.executions.wait_for_end(execution_id, timeout_seconds=SECONDS_MAX)
    listed = {run.execution_id for run in client.executions.list_all(workflow_id="greet", status="completed", limit=2)}
    assert ids <= listed
    assert [item.id for item in client.workflows.list_all(prefix="gre")] == ["greet"]


def test_every_operation_can_be_called_by_its_name(client: Client) -> None:
    assert client.call("workflow.get", workflow_id="greet")["version"] == "1.2.0"
    listed = {item.name for item in client.system.operations().items}
    assert {"workflow.get", "execution.stream", "key.rotate"} <= listed


def test_a_write_is_made_once_however_often_it_is_sent(client: Client) -> None:
    first = client.executions.start("greet", {"name": "once"}, idempotency_key="once-1")
    assert client.executions.start("greet", {"name": "once"}, idempotency_key="once-1") == first
    with pytest.raises(Rejected, match="IDEMPOTENCY_KEY_REUSED"):
        client.executions.start("greet", {"name": "twice"}, idempotency_key="once-1")


def test_refusals_are_exceptions_with_a_request_id(client: Client, server: LiveServer) -> None:
    with pytest.raises(CallNotFound, match="WORKFLOW_NOT_FOUND") as caught:
        client.workflows.get("nobody_knows")
    assert caught.value.request_id
    with pytest.raises(Conflict, match="WORKFLOW_EXISTS"):
        client.workflows.create(source=GREET)
    with pytest.raises(Rejected) as found:
        client.workflows.list(limit=0)
    assert found.value.details["errors"]
    with Client(server.url, "pen_nobody_nothing") as stranger, pytest.raises(Denied, match="UNAUTHENTICATED"):
        stranger.workflows.list()


def test_definitions_are_changed_by_whoever_saw_the_newest_version(client: Client) -> None:
    made = client.schemas.create(id="order", schema={"type": "object"})
    changed = client.schemas.update("order", schema={"type": "object", "title": "Order"}, if_match=f'"{made.etag}"')
    assert changed.etag != made.etag
    with pytest.raises(Conflict, match="PRECONDITION_FAILED"):
        client.schemas.update("order", schema={}, if_match=f'"{made.etag}"')
    assert client.schemas.delete("order").deleted


def test_schedules_keys_and_the_audit_trail(client: Client) -> None:
    schedule = client.schedules.create(workflow_id="greet", cron="0 3 * * *", input={"name": "n"}, jitter="30s")
    assert client.schedules.update(schedule.schedule_id, jitter=None).jitter is None
    client.schedules.delete(schedule.schedule_id)
    made = client.keys.create(name="ci", scopes="workflow:read")
    assert made.key.scopes == ["workflow:read"]
    assert client.keys.revoke(made.key.id).status == "revoked"
    assert client.audit.verify().intact
    assert any(record.operation == "key.revoke" for record in client.audit.list_all())


def test_a_stream_survives_the_death_of_its_server(tmp_path: Path) -> None:
    with serving(tmp_path) as server, Client(server.url, server.key) as client:
        client.workflows.create(source=WAIT)
        client.executions.start("wait_for_go", execution_id="survivor")
        seen: list[StreamEvent] = []
        waits = threading.Event()

        def follow() -> None:
            for event in client.executions.stream("survivor"):
                seen.append(event)
                if event.data.get("status") == "waiting_signal":
                    waits.set()

        reader = threading.Thread(target=follow, daemon=True)
        reader.start()
        assert waits.wait(SECONDS_MAX)
        server.kill()
        server.start()
        client.executions.signal("survivor", name="go_ahead")
        client.executions.wait("survivor", wait_seconds=SECONDS_MAX)
        client.executions.answer("survivor", answer={"ok": True})
        reader.join(SECONDS_MAX)
        assert not reader.is_alive()
        told = [event for event in seen if event.event != "progress"]
        assert told == list(client.executions.stream("survivor"))
        assert told[-1].event == "complete"


def test_a_stream_ends_with_its_key(client: Client, server: LiveServer) -> None:
    made = client.keys.create(name="reader", scopes=["execution:read"])
    client.executions.start("wait_for_go", execution_id="watched")
    with Client(server.url, made.secret) as reader:
        events = reader.executions.stream("watched")
        next(events)
        client.keys.revoke(made.key.id)
        with pytest.raises(CallDenied):
            list(events)
    client.executions.cancel("watched")


def test_the_awaited_client_does_the_same(client: Client, server: LiveServer) -> None:
    async def work() -> None:
        async with AsyncClient(server.url, server.key) as other:
            runs = await asyncio.gather(*(other.executions.run("greet", {"name": f"a{n}"}) for n in range(5)))
            assert {run.output["said"] for run in runs} == {f"Hello a{n}" for n in range(5)}
            events = [event.event async for event in other.executions.stream(runs[0].execution_id, events="status")]
            assert set(events) == {"status"}
            listed = [run.execution_id async for run in other.executions.list_all(workflow_id="greet", limit=2)]
            assert {run.execution_id for run in runs} <= set(listed)
            with pytest.raises(NotFound):
                await other.workflows.get("nobody_knows")
            await other.executions.start("wait_for_go", execution_id="awaited")
            with pytest.raises(CallTimedOut):
                await other.executions.wait_for_end("awaited", timeout_seconds=0.2)
            await other.executions.cancel("awaited")

    asyncio.run(work())


def test_a_server_that_is_not_there_is_named() -> None:
    with (
        Client("http://127.0.0.1:9", "pen_x", retries=0) as client,
        pytest.raises(CallFailed, match="cannot be reached"),
    ):
        client.system.info()


def test_the_client_loads_nothing_of_the_server() -> None:
    program = "import sys, penstock.client; penstock.client.Client; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    ours = {name.split(".")[1] for name in loaded if name.startswith("penstock.")}
    assert ours == {"base", "client"}
    assert {"starlette", "uvicorn", "sqlite3", "click"}.isdisjoint(loaded)
