"""Streams of a real server: resuming over crashes, signs of life, slow readers, revoked keys, a thousand at once."""

from __future__ import annotations

import random
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.live.rest.seeds import WORKFLOWS
from tests.live.rest.servers import LiveServer, serving
from tests.live.rest.streams import Event, Reader, following
from tests.live.rest.wire import request_head
from tests.waiting import SECONDS_MAX

STEPS = 12
# Waits for a signal again and again, and notes something each time: a history that grows while it is followed.
LONG = {
    "penstock": "v1",
    "name": "long",
    "nodes": [
        node
        for number in range(STEPS)
        for node in (
            {"id": f"wait_{number}", "type": "wait", "signal": "go"},
            {"id": f"note_{number}", "type": "set_state", "set": {"heard": f"${{ .wait_{number} }}"}},
        )
    ]
    + [{"id": "done", "type": "end", "output": "${ .state.heard }"}],
}


def ready(server: LiveServer, *documents: dict[str, Any]) -> None:
    for document in (*WORKFLOWS, *documents):
        server.call("POST", "workflows", {"document": document})


@pytest.mark.parametrize("seed", [1, 2])
def test_a_reader_misses_nothing_and_reads_nothing_twice_over_crashes_of_the_server(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with serving(tmp_path) as server:
        ready(server, LONG)
        server.call("POST", "workflows/long/executions", {"execution_id": "one"})
        got: list[Event] = []
        sent, crashes = 0, 0
        while not got or got[-1].name != "complete":
            with following(server, "one", last=got[-1].id if got else None) as reader:
                assert reader.status == 200
                budget = chance.randint(1, 25)
                for event in reader.events():
                    got.append(event)
                    if event.data.get("phase") == "waiting_signal" and sent < STEPS:
                        sent += 1
                        signal = {"name": "go", "payload": sent, "signal_id": f"s{sent}"}
                        server.call("POST", "executions/one/signals", signal)
                    budget -= 1
                    if budget == 0:
                        break
                if got[-1].name != "complete":
                    crashes += 1
                    server.kill()
                    server.start()
        assert crashes >= 3
        with following(server, "one") as reader:
            assert got == list(reader.events())
        assert len({event.id for event in got}) == len(got)


def test_a_silent_stream_shows_that_it_lives(tmp_path: Path) -> None:
    with serving(tmp_path, PENSTOCK_SERVER_STREAMS_HEARTBEAT_SECONDS="0.2") as server:
        ready(server)
        server.call("POST", "workflows/approve/executions", {"execution_id": "one"})
        with following(server, "one", query="?events=complete") as reader:
            frames = list(islice(reader.frames(), 4))
        assert frames[0] == "retry: 5000"
        assert frames[1:] == [": ping"] * 3


def test_a_revoked_key_ends_its_open_streams_at_once(tmp_path: Path) -> None:
    # Heartbeats are an hour apart: a stream that ends before was told, and did not find out by chance.
    with serving(tmp_path, PENSTOCK_SERVER_STREAMS_HEARTBEAT_SECONDS="3600") as server:
        ready(server)
        server.call("POST", "workflows/approve/executions", {"execution_id": "one"})
        made = server.call("POST", "keys", {"name": "reader", "scopes": ["execution:read"]})
        with (
            following(server, "one", key=made["secret"], query="?events=complete") as theirs,
            following(server, "one", query="?events=complete") as ours,
        ):
            assert next(theirs.frames()) == next(ours.frames()) == "retry: 5000"
            server.call("POST", f"keys/{made['key']['id']}/revoke")
            [last] = theirs.events()
            assert (last.name, last.data["code"], last.id) == ("closed", "KEY_REVOKED", None)
            answer = {"answer": {"ok": True}}
            server.call("POST", "executions/one/answers", answer)
            assert [event.name for event in ours.events()] == ["complete"]
        refused = server.request("GET", "executions/one/stream", key=made["secret"])
        assert (refused.status, refused.json()["code"]) == (401, "KEY_REVOKED")


def test_a_reader_that_takes_nothing_is_cut_off_and_can_go_on(tmp_path: Path) -> None:
    script = (
        "from penstock.base import limits\n"
        "limits.STREAM_SEND_SECONDS_MAX = 0.3\n"
        "from penstock.cli.main import main\n"
        "main()\n"
    )
    # Many long questions: more than the buffers of sockets hold.
    question = {"id": "ask", "type": "interrupt", "message": "x" * 40_000}
    loud = {
        "penstock": "v1",
        "name": "loud",
        "nodes": [
            {"id": "each", "type": "for_each", "items": "[range(300)]", "concurrency": 300, "nodes": [question]},
            {"id": "done", "type": "end"},
        ],
    }
    with serving(tmp_path, "--verbose", script=script) as server:
        ready(server, loud)
        server.call("POST", "workflows/loud/executions", {"execution_id": "one"})
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            connection.settimeout(SECONDS_MAX)
            connection.connect(("127.0.0.1", server.port))
            path = "/api/v0/executions/one/stream?events=node,complete"
            connection.sendall(request_head("GET", path, server.key, close=False))
            # The reader says nothing and takes nothing, until the server has had enough of it.
            server.logged("request", route="/api/v0/executions/{execution_id}/stream", status=200)
            reader = Reader(connection)
            got = list(reader.events())
        assert 0 < len(got) < 300
        metrics = server.call("GET", "metrics")["metrics"]
        assert metrics['penstock_stream_errors_total{kind="execution"}'] == 1
        assert metrics['penstock_stream_active_connections{kind="execution"}'] == 0
        with following(server, "one", last=got[-1].id, query="?events=node,complete") as reader:
            rest = list(islice(reader.events(), 3))
        with following(server, "one", query="?events=node,complete") as reader:
            whole = list(islice(reader.events(), len(got) + 3))
        assert got == whole[: len(got)]
        assert rest == whole[len(got) :]


def test_a_thousand_idle_streams_are_cheap(tmp_path: Path) -> None:
    wanted = 1_000
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted + 200:
        pytest.skip(f"this shell may open {soft} files")
    with serving(tmp_path) as server, ExitStack() as stack:
        ready(server)
        server.call("POST", "workflows/approve/executions", {"execution_id": "one"})
        held = list(islice(opened(server, stack), 100))
        before = server.resident_bytes()
        readers = list(islice(opened(server, stack), wanted))
        each = (server.resident_bytes() - before) / wanted
        metrics = server.call("GET", "metrics")["metrics"]
        assert metrics['penstock_stream_active_connections{kind="execution"}'] == wanted + len(held)
        server.call("POST", "executions/one/answers", {"answer": {"ok": True}})
        for reader in readers[:: wanted // 20]:
            assert [event.name for event in reader.events()] == ["complete"]
        print(f"{each / 1024:.1f} KiB for each open stream")
        assert each < 40_000


def opened(server: LiveServer, stack: ExitStack) -> Iterator[Reader]:
    """Streams that are open and silent."""
    while True:
        connection = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS_MAX))
        path = "/api/v0/executions/one/stream?events=complete"
        connection.sendall(request_head("GET", path, server.key, close=False))
        reader = Reader(connection)
        assert next(reader.frames()) == "retry: 5000"
        yield reader
