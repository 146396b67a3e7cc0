"""The client that others wrote for the OpenWOP wire, against a live server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from openwop_client import (  # type: ignore[import-untyped]
    BulkCancelRunsRequest,
    CancelRunRequest,
    CreateRunRequest,
    OpenwopClient,
    PauseRunRequest,
    ResolveInterruptRequest,
    RunEventDoc,
    WopError,
)
from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR

from tests.live.rest.seeds import WORKFLOWS
from tests.live.rest.servers import LiveServer, serving
from tests.waiting import SECONDS_MAX

BROKEN = {
    "penstock": "v1",
    "name": "broken",
    "nodes": [
        {"id": "look", "type": "switch", "cases": [{"when": ".input.ok", "next": "done"}], "default": "stop"},
        {"id": "stop", "type": "fail", "code": "NO_STOCK", "message": "sold out"},
        {"id": "done", "type": "end"},
    ],
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with serving(tmp_path_factory.mktemp("server")) as found:
        for document in (*WORKFLOWS, BROKEN):
            found.call("POST", "workflows", {"document": document})
        yield found


@pytest.fixture
def client(server: LiveServer) -> OpenwopClient:
    return OpenwopClient(base_url=server.url, api_key=server.key)


def ended(client: OpenwopClient, run_id: str) -> list[RunEventDoc]:
    """Every event of a run, polled until there are no more."""
    events: list[RunEventDoc] = []
    while True:
        page = client.runs_poll_events(
            run_id, last_sequence=events[-1].sequence if events else None, timeout_seconds=20
        )
        events.extend(page.events)
        if page.isComplete:
            return events


def until(client: OpenwopClient, run_id: str, kind: str) -> list[RunEventDoc]:
    """The events of a run until one of a kind."""
    events: list[RunEventDoc] = []
    while not any(event.type == kind for event in events):
        last = events[-1].sequence if events else None
        events.extend(client.runs_poll_events(run_id, last_sequence=last, timeout_seconds=20).events)
    return events


def refused(error: pytest.ExceptionInfo[WopError]) -> tuple[int, str]:
    envelope = error.value.envelope
    assert envelope is not None, error.value.raw_text
    return error.value.status, envelope.error


def test_discovery_claims_what_is_served(client: OpenwopClient) -> None:
    found = client.discovery_capabilities()
    assert found.protocolVersion == "1.0"
    assert found.implementation is not None
    assert found.implementation["name"] == "penstock"
    assert found.supportedTransports == ["rest"]
    assert found.limits.maxRequestBodyBytes == 2_097_152
    described = client.discovery_openapi()
    assert [str(error) for error in OPENAPI_31_VALIDATOR.iter_errors(described)] == []
    assert "/v1/runs/{runId}/events" in described["paths"]


def test_a_run_is_started_polled_and_read(client: OpenwopClient) -> None:
    made = client.runs_create(
        CreateRunRequest(workflowId="count", inputs={"number": 21}, tags=["red", "blue"], metadata={"order": 7})
    )
    assert made.eventsUrl == f"/v1/runs/{made.runId}/events"
    events = ended(client, made.runId)
    assert [event.type for event in events] == [
        "run.started",
        "node.started",
        "node.completed",
        "node.started",
        "node.completed",
        "run.completed",
    ]
    assert events[0].sequence == 0
    assert events[0].payload == {"workflowId": "count", "inputs": {"number": 21}}
    assert events[-1].payload == {"outputs": {"doubled": 42}}
    assert len({event.eventId for event in events}) == len(events)
    snapshot = client.runs_get(made.runId)
    assert (snapshot.runId, snapshot.workflowId, snapshot.status) == (made.runId, "count", "completed")
    assert snapshot.variables is not None
    assert snapshot.variables["output"] == {"doubled": 42}
    assert (snapshot.tags, snapshot.metadata) == (["red", "blue"], {"order": 7})
    assert snapshot.completedAt is not None


def test_the_stream_has_the_events_of_the_poll_and_can_be_gone_on_with(client: OpenwopClient) -> None:
    run_id = client.runs_create(CreateRunRequest(workflowId="count", inputs={"number": 1})).runId
    polled = ended(client, run_id)
    assert list(client.runs_events(run_id, stream_mode="debug")) == polled
    assert list(client.runs_events(run_id, stream_mode=("updates", "debug"))) == polled
    updates = list(client.runs_events(run_id))
    assert updates == [event for event in polled if event.type != "node.started"]
    for known in (str(polled[2].sequence), polled[2].eventId):
        assert list(client.runs_events(run_id, stream_mode="debug", last_event_id=known)) == polled[3:]
    assert list(client.runs_events(run_id, buffer_ms=100)) == updates


def test_a_stream_that_is_open_hears_of_the_answer(client: OpenwopClient) -> None:
    run_id = client.runs_create(CreateRunRequest(workflowId="approve")).runId
    heard: list[RunEventDoc] = []
    asked = threading.Event()

    def follow() -> None:
        for event in client.runs_events(run_id, timeout_seconds=SECONDS_MAX):
            heard.append(event)
            if event.type == "interrupt.requested":
                asked.set()

    reader = threading.Thread(target=follow)
    reader.start()
    assert asked.wait(SECONDS_MAX)
    snapshot = client.runs_get(run_id)
    assert (snapshot.status, snapshot.currentNodeId) == ("waiting-input", "ask")
    with pytest.raises(WopError) as error:
        client.interrupts_resolve_by_run(run_id, "ask", ResolveInterruptRequest(resumeValue={"ok": "perhaps"}))
    assert refused(error) == (400, "validation_error")
    resolved = client.interrupts_resolve_by_run(run_id, "ask", ResolveInterruptRequest(resumeValue={"ok": True}))
    assert (resolved.runId, resolved.nodeId) == (run_id, "ask")
    reader.join(SECONDS_MAX)
    assert not reader.is_alive()
    assert [event.type for event in heard] == [
        "run.started",
        "node.suspended",
        "interrupt.requested",
        "interrupt.resolved",
        "node.completed",
        "node.completed",
        "run.completed",
    ]
    question = heard[2]
    assert question.nodeId == "ask"
    assert question.payload["data"] == {"prompt": "May I?"}
    assert question.payload["resumeSchema"]["required"] == ["ok"]
    with pytest.raises(WopError) as error:
        client.interrupts_resolve_by_run(run_id, "ask", ResolveInterruptRequest(resumeValue={"ok": True}))
    assert refused(error) == (409, "interrupt_already_resolved")


def test_a_run_is_cancelled_once_and_stays_cancelled(client: OpenwopClient) -> None:
    run_id = client.runs_create(CreateRunRequest(workflowId="signalled")).runId
    until(client, run_id, "node.suspended")
    assert client.runs_get(run_id).status == "waiting-external"
    assert client.runs_cancel(run_id, CancelRunRequest(reason="enough")).status in ("cancelling", "cancelled")
    events = ended(client, run_id)
    assert (events[-1].type, events[-1].payload) == ("run.cancelled", {"reason": "enough"})
    assert client.runs_cancel(run_id).status == "cancelled"
    done = client.runs_create(CreateRunRequest(workflowId="count", inputs={"number": 1})).runId
    ended(client, done)
    with pytest.raises(WopError) as error:
        client.runs_cancel(done)
    assert refused(error) == (409, "run_terminal")
    several = client.runs_bulk_cancel(BulkCancelRunsRequest(runIds=[run_id, done, "nothing"]))
    assert [(item.ok, (item.error or {}).get("code")) for item in several.results] == [
        (True, None),
        (False, "run_terminal"),
        (False, "not_found"),
    ]


def test_a_run_is_paused_and_goes_on(client: OpenwopClient) -> None:
    run_id = client.runs_create(CreateRunRequest(workflowId="approve")).runId
    until(client, run_id, "interrupt.requested")
    assert client.runs_pause(run_id, PauseRunRequest(reason="lunch")).status == "paused"
    assert client.runs_get(run_id).status == "paused"
    with pytest.raises(WopError) as error:
        client.runs_pause(run_id)
    assert refused(error) == (409, "run_state_conflict")
    assert error.value.envelope is not None
    assert (error.value.envelope.details or {})["runStatus"] == "paused"
    assert client.runs_resume(run_id).status == "running"
    client.interrupts_resolve_by_run(run_id, "ask", ResolveInterruptRequest(resumeValue={"ok": False}))
    types = [event.type for event in ended(client, run_id)]
    assert types.index("run.paused") < types.index("run.resumed") < types.index("run.completed")


def test_a_failed_run_says_why(client: OpenwopClient) -> None:
    run_id = client.runs_create(CreateRunRequest(workflowId="broken")).runId
    last = ended(client, run_id)[-1]
    assert last.type == "run.failed"
    assert last.payload["error"] == {"code": "NO_STOCK", "message": "sold out"}
    snapshot = client.runs_get(run_id)
    assert snapshot.status == "failed"
    assert snapshot.error is not None
    assert (snapshot.error.code, snapshot.error.message) == ("NO_STOCK", "sold out")


def test_the_same_key_starts_one_run(client: OpenwopClient) -> None:
    body = CreateRunRequest(workflowId="count", inputs={"number": 5})
    first = client.runs_create(body, idempotency_key="openwop-once-0123456789")
    again = client.runs_create(body, idempotency_key="openwop-once-0123456789")
    assert first == again
    other = CreateRunRequest(workflowId="count", inputs={"number": 6})
    with pytest.raises(WopError) as error:
        client.runs_create(other, idempotency_key="openwop-once-0123456789")
    assert refused(error) == (409, "idempotency_key_mismatch")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (CreateRunRequest(workflowId="nothing"), 400, "validation_error"),
        (CreateRunRequest(workflowId="count", inputs={"number": "many"}), 400, "validation_error"),
        (CreateRunRequest(workflowId="count", callbackUrl="https://example.com"), 400, "validation_error"),
        (CreateRunRequest(workflowId="count", configurable={"temperature": 1}), 400, "validation_error"),
        (CreateRunRequest(workflowId="count", tenantId="other"), 403, "forbidden"),
    ],
    ids=["unknown", "input", "callback", "configurable", "tenant"],
)
def test_what_is_not_served_is_refused(client: OpenwopClient, body: CreateRunRequest, status: int, code: str) -> None:
    with pytest.raises(WopError) as error:
        client.runs_create(body)
    assert refused(error) == (status, code)


def test_errors_are_the_closed_envelope(server: LiveServer, client: OpenwopClient) -> None:
    stranger = OpenwopClient(base_url=server.url, api_key="pen_nobody")
    calls: list[tuple[Callable[[], object], tuple[int, str]]] = [
        (lambda: stranger.runs_get("x"), (401, "unauthenticated")),
        (lambda: client.runs_get("x"), (404, "not_found")),
        (lambda: client.workflows_get("x"), (404, "not_found")),
        (lambda: client.runs_poll_events("x"), (404, "not_found")),
        (lambda: client.interrupts_inspect_by_token("x"), (404, "not_found")),
        (lambda: client.runs_create(CreateRunRequest(workflowId="count"), dedup=True), (400, "validation_error")),
    ]
    for call, expected in calls:
        with pytest.raises(WopError) as error:
            call()
        assert refused(error) == expected
    for method, path, body in (("GET", "/v1/runs/x", None), ("POST", "/v1/runs", b"{"), ("DELETE", "/v1/runs", None)):
        answer = server.request(method, path, body)
        assert 400 <= answer.status < 500
        assert set(answer.json()) == {"error", "message", "details"}
        assert answer.json()["details"]["correlationId"] == answer.headers["x-request-id"]
    mode = server.request("GET", "/v1/runs/x/events?streamMode=values")
    assert (mode.status, mode.json()["error"]) == (400, "unsupported_stream_mode")
    assert mode.json()["details"]["supported"] == ["updates", "debug"]
    mistyped = server.request("GET", "/v1/runs/x/events?streamMode=update")
    assert mistyped.json()["message"] == "streamMode: unknown value `update`; did you mean `updates`?"
    for value in ("enforce", "enforced"):
        run = server.request("POST", "/v1/runs", b'{"workflowId": "count"}', headers={"X-Dedup": value})
        assert (run.status, run.json()["error"]) == (400, "validation_error")


def test_a_key_needs_our_scopes(server: LiveServer) -> None:
    made = server.call("POST", "keys", {"name": "reader", "scopes": ["execution:read"]})
    reader = OpenwopClient(base_url=server.url, api_key=made["secret"])
    with pytest.raises(WopError) as error:
        reader.runs_create(CreateRunRequest(workflowId="count"))
    assert refused(error) == (403, "forbidden")
    assert error.value.envelope is not None
    assert (error.value.envelope.details or {})["scopeRequired"] == "workflow:run"


def test_a_workflow_can_be_read(client: OpenwopClient) -> None:
    found = client.workflows_get("count")
    assert (found["workflowId"], found["inputSchema"]["required"]) == ("count", ["number"])


def test_events_survive_a_crash_of_the_server(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        for document in WORKFLOWS:
            server.call("POST", "workflows", {"document": document})
        client = OpenwopClient(base_url=server.url, api_key=server.key)
        run_id = client.runs_create(CreateRunRequest(workflowId="approve")).runId
        before = until(client, run_id, "interrupt.requested")
        server.kill()
        server.start()
        client.interrupts_resolve_by_run(run_id, "ask", ResolveInterruptRequest(resumeValue={"ok": True}))
        whole = ended(client, run_id)
        assert whole[: len(before)] == before
        rest = list(client.runs_events(run_id, stream_mode="debug", last_event_id=str(before[-1].sequence)))
        assert before + rest == whole
