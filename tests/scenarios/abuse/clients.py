"""Cases of clients that read too much, hang up, lie in their heads, or reach for what is not theirs."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from tests.live.rest.servers import Answer, LiveServer
from tests.live.tenants import member
from tests.scenarios.abuse.cases import Case, at_once, document, waiting
from tests.waiting import SECONDS_MAX, wait_until

__all__ = ["CLIENT_CASES"]

_READERS = 200
# As long as it takes until each has so much, and at least a few seconds.
_READ_BYTES_MIN = 120_000
_READING_SECONDS_MIN, _READING_SECONDS_MAX = 3.0, 90.0
_HISTORY_RECORDS = 20_000
# Twice what runs in memory may take together, see benchmarks/memory.py; without a bound these runs take 600 MB.
_GROWTH_BYTES_MAX = 270_000_000
# While a run is let go and the next one is read, there are more of them for a moment.
_PEAK_BYTES_MAX = 450_000_000
# Less than the pause between two heartbeats: a stream that ends only then was not told of the revocation.
_REVOKED_SECONDS_MAX = 10.0

# Readers in a process of their own, so that whoever measures does not wait for them; each says how much it got.
_READING = """
import asyncio, json, sys

port, path, key, count, enough = int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
seconds_min, seconds_max = float(sys.argv[6]), float(sys.argv[7])
got = [0] * count

async def read(number):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"GET {path} HTTP/1.1\\r\\nHost: x\\r\\nAuthorization: Bearer {key}\\r\\nConnection: close\\r\\n\\r\\n"
    writer.write(head.encode())
    while part := await reader.read(65_536):
        got[number] += len(part)

async def main():
    tasks = [asyncio.create_task(read(number)) for number in range(count)]
    loop = asyncio.get_running_loop()
    began = loop.time()
    under_way = set(tasks)
    while under_way and (spent := loop.time() - began) < seconds_max and (spent < seconds_min or min(got) < enough):
        done, under_way = await asyncio.wait(under_way, timeout=0.1)
        for task in done:
            task.result()
    print(json.dumps(got))

asyncio.run(main())
"""


def _many_read_a_long_history(server: LiveServer) -> None:
    counting: dict[str, Any] = {"type": "loop", "until": "false", "max_iterations": 3_500, "on_exhausted": "continue"}
    counting["nodes"] = [{"id": "note", "type": "set_state", "set": {"n": "${ 1 }"}}]
    told = {"penstock": "v1", "name": "long", "state": {"type": "object", "properties": {"n": {}}}}
    nodes = [{"id": "again", **counting}, {"id": "done", "type": "end"}]
    server.call("POST", "workflows", {"document": {**told, "nodes": nodes}})
    sent = {"sync": True, "wait_seconds": 60}
    started = server.call("POST", "workflows/long/executions", sent, timeout=SECONDS_MAX)
    assert started["status"] == "completed", started
    path = f"executions/{started['execution_id']}"
    records = server.call("GET", f"{path}/history?limit=1&after={_HISTORY_RECORDS}")["items"]
    assert records, "the history is short"
    command = [sys.executable, "-I", "-c", _READING, str(server.port), f"/api/v0/{path}/stream", server.key]
    done = subprocess.run(
        [
            *(*command, str(_READERS), str(_READ_BYTES_MIN)),
            *(str(_READING_SECONDS_MIN), str(_READING_SECONDS_MAX)),
        ],
        check=True,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
    )
    got = json.loads(done.stdout)
    # All are served alike, and none waits for the others to have read everything.
    assert min(got) * 4 > max(got) > 0, f"from {min(got)} to {max(got)} bytes"


def _waiting_runs_of_a_megabyte_stay_small(server: LiveServer) -> None:
    waiting(server)
    before = server.resident_bytes()
    text = b'{"input":["' + b"x" * 1_000_000 + b'"]}'
    lists = b'{"input":[' + b",".join([b"[]"] * 330_000) + b"]}"
    grown: list[int] = []
    for body in (*[text] * 100, *[lists] * 20):
        answer = server.request("POST", "workflows/waits/executions", body, timeout=SECONDS_MAX)
        assert answer.status < 300, answer.body[:300]
        grown.append(server.resident_bytes() - before)
    settled, peak = min(grown[-10:]), max(grown)
    assert settled < _GROWTH_BYTES_MAX, f"the server grew by {settled // 1_000_000} MB"
    assert peak < _PEAK_BYTES_MAX, f"the server grew by {peak // 1_000_000} MB for a moment"


def _raw(server: LiveServer, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS_MAX) as connection:
        connection.sendall(request)
        return connection.recv(65_536)


def _head(server: LiveServer, path: str, body: bytes) -> bytes:
    return (
        f"POST /api/v0/{path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode()


def _hanging_up_leaves_no_run_behind(server: LiveServer) -> None:
    server.call("POST", "workflows", {"document": document("dropped")})
    run_id = waiting(server)
    endless = json.dumps({"expression": "last(range(1e12))"}).encode()
    begun = json.dumps({"sync": True, "wait_seconds": 30}).encode()
    for number in range(120):
        path, body = (
            (f"executions/{run_id}/query", endless) if number % 6 == 0 else ("workflows/dropped/executions", begun)
        )
        with socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS_MAX) as connection:
            connection.sendall(_head(server, path, body) + body)
            # Some leave at once, some in the middle of what is done for them.
            threading.Event().wait(number % 30 / 1000)

    def all_are_completed() -> bool:
        runs = server.call("GET", "workflows/dropped/executions?limit=500")["items"]
        return bool(runs) and all(item["status"] == "completed" for item in runs)

    wait_until(all_are_completed)
    assert server.request("GET", f"executions/{run_id}").status == 200


def _heads_that_lie_are_refused(server: LiveServer) -> None:
    begin, key = (
        b"POST /api/v0/workflows/validate HTTP/1.1\r\nHost: x\r\n",
        f"Authorization: Bearer {server.key}\r\n".encode(),
    )
    body = b'{"document":{}}'
    honest = _raw(server, begin + key + b"Content-Type: application/json\r\nContent-Length: 15\r\n\r\n" + body)
    assert honest.startswith(b"HTTP/1.1 200"), honest[:200]
    for head in (
        b"Content-Length: 15\r\nContent-Length: 6\r\n",
        b"Content-Length: 15\r\nTransfer-Encoding: chunked\r\n",
        b"Content-Length: -1\r\n",
        b"Content-Length: 99999999999\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        b"X: " + b"y" * 200_000 + b"\r\n",
    ):
        told = _raw(server, begin + key + head + b"\r\n" + body)
        assert not told.startswith((b"HTTP/1.1 2", b"HTTP/1.1 5")), (head[:60], told[:200])


def _an_escaped_slash_is_no_slash(server: LiveServer) -> None:
    run_id = waiting(server)
    for path, code in (
        (f"executions/{run_id}%2fhistory", "EXECUTION_NOT_FOUND"),
        ("workflows%2fwaits", "ROUTE_NOT_FOUND"),
    ):
        answer = server.request("GET", path)
        assert answer.json()["code"] == code, answer.body[:300]


def _tenants_see_nothing_of_each_other(server: LiveServer) -> None:
    run_id = waiting(server)
    stranger = member(server, "stranger")
    for method, path in (
        ("GET", f"executions/{run_id}"),
        ("GET", f"executions/{run_id}/history"),
        ("GET", f"executions/{run_id}/stream"),
        ("POST", f"executions/{run_id}/cancel"),
        ("GET", "workflows/waits"),
        ("DELETE", "workflows/waits"),
    ):
        answer = stranger.request(method, path, {} if method == "POST" else None)
        assert answer.status == 404, (path, answer.body[:200])
    assert stranger.call("GET", "executions")["items"] == []
    assert server.call("GET", f"executions/{run_id}")["status"] == "waiting_signal"


def _what_is_under_way_with_a_revoked_key_ends(server: LiveServer) -> None:
    run_id = waiting(server)
    made = server.call("POST", "keys", {"name": "gone", "scopes": ["*"]})
    secret = made["secret"]

    def timed(path: str) -> tuple[Answer, float]:
        answer = server.request("GET", path, key=secret, timeout=SECONDS_MAX)
        return answer, time.monotonic()

    with ThreadPoolExecutor(20) as threads:
        paths = [f"executions/{run_id}/wait?wait_seconds=60", f"executions/{run_id}/stream"] * 10
        begun: list[Future[tuple[Answer, float]]] = [threads.submit(timed, path) for path in paths]
        name = "penstock_stream_active_connections"
        wait_until(lambda: _metric(server, name) >= 10)
        assert not any(call.done() for call in begun)
        server.call("POST", f"keys/{made['key']['id']}/revoke", {})
        revoked_at = time.monotonic()
        ended = [call.result(SECONDS_MAX) for call in begun]
    late = max(at for _, at in ended) - revoked_at
    assert late < _REVOKED_SECONDS_MAX, f"it took {late:.1f} s"
    assert all(b"KEY_REVOKED" in answer.body for answer, _ in ended)
    assert server.request("GET", "workflows", key=secret).status == 401


def _metric(server: LiveServer, name: str) -> float:
    lines = server.request("GET", "/metrics").body.decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith((f"{name} ", f"{name}{{")))


def _a_name_is_not_taken_over(server: LiveServer) -> None:
    exposed = {"expose": {"tool": {"name": "pay"}}, "description": "Pay"}
    server.call("POST", "workflows", {"document": document("pays", **exposed)})
    names = [f"a_thief_{number}" for number in range(12)]
    answers = at_once(12, lambda n: server.request("POST", "workflows", {"document": document(names[n], **exposed)}))
    for answer in answers:
        told = answer.json()
        assert (answer.status, told["code"]) == (409, "NAME_TAKEN"), answer.body[:300]
        assert "pays" in told["detail"], told


CLIENT_CASES: tuple[Case, ...] = (
    Case("many readers of a long history", _many_read_a_long_history),
    Case("waiting runs of a megabyte", _waiting_runs_of_a_megabyte_stay_small),
    Case("callers that hang up", _hanging_up_leaves_no_run_behind),
    Case("heads that lie", _heads_that_lie_are_refused),
    Case("an escaped slash", _an_escaped_slash_is_no_slash),
    Case("reaching into another tenant", _tenants_see_nothing_of_each_other),
    Case("a revoked key with calls under way", _what_is_under_way_with_a_revoked_key_ends),
    Case("taking over a name", _a_name_is_not_taken_over),
)
