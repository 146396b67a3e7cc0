"""Whatever is wrong with a message, the client is told so; the server is not to blame, and shows nothing of itself."""

from __future__ import annotations

import http.client
import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.live.mcp.broken_messages import GARBAGE, META, Broken, broken_requests, is_internal
from tests.live.mcp.clients import new_session
from tests.live.mcp.workflows import ASK, GREET
from tests.live.rest.servers import LiveServer, serving
from tests.waiting import SECONDS_MAX
from tests.zygote import piped_command

ECHO: dict[str, Any] = {
    "penstock": "v1",
    "name": "echo",
    "input": {"type": "object"},
    "expose": {
        "tool": {"result": "content"},
        "prompt": {"run": True},
        "resource": {"uri": "echo://{out}", "result": "content"},
    },
    "nodes": [{"id": "done", "type": "end", "output": "${ .input.out }"}],
}
WORKFLOWS = (GREET, ASK, ECHO)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server that does not mind how many calls there are."""
    settings = {
        "PENSTOCK_LIMITS_READ_PER_MINUTE": "1000000",
        "PENSTOCK_LIMITS_WRITE_PER_MINUTE": "1000000",
        "PENSTOCK_SERVER_MCP_TOOLSET": "management",
    }
    with serving(tmp_path_factory.mktemp("broken"), **settings) as running:
        for document in WORKFLOWS:
            running.call("POST", "workflows", {"document": document})
        yield running


class _Wire:
    """One connection on which all messages are sent."""

    def __init__(self, server: LiveServer) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=SECONDS_MAX)
        self._headers = {"Authorization": f"Bearer {server.key}", "Content-Type": "application/json"}

    def close(self) -> None:
        self._connection.close()

    def check(self, path: str, body: bytes, headers: dict[str, str]) -> None:
        self._connection.request("POST", path, body, {**self._headers, **headers})
        response = self._connection.getresponse()
        answer = response.read().decode()
        assert response.status < 500, (path, body[:300], answer[:300])
        assert not is_internal(answer), (path, body[:300], answer[:300])


def _modern(broken: Broken) -> dict[str, str]:
    named = {} if broken.name is None else {"Mcp-Name": broken.name}
    return {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": broken.method, **named}


def test_broken_messages_over_http(server: LiveServer) -> None:
    with closing(_Wire(server)) as wire:
        _send_everything(server, wire)


def _send_everything(server: LiveServer, wire: _Wire) -> None:
    both = {"Accept": "application/json, text/event-stream"}
    session, begun = new_session(server), server.call("POST", "workflows/refund/executions", {})["execution_id"]
    for number, broken in enumerate(broken_requests(begun, every=5)):
        wire.check("/mcp", broken.body(number, with_envelope=True), {**both, **_modern(broken)})
        way = number % 3
        if way == 0:
            wire.check("/mcp", broken.body(number, with_envelope=False), session)
        if way == 1:
            wire.check("/v1/mcp", broken.body(number, with_envelope=False), {"Accept": "application/json"})
        if way == 2:
            unknown = {**session, "Mcp-Session-Id": "0" * 32}
            wire.check("/mcp", broken.body(number, with_envelope=False), unknown)
    for body in GARBAGE:
        for path in ("/mcp", "/v1/mcp"):
            for headers in (both, session, {**both, "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}):
                wire.check(path, body, headers)
    # Who wants to hear of changes says it properly, or is told so.
    unreadable: tuple[Any, ...] = (1, "x", {"taskIds": 1}, {"resourceSubscriptions": [1]}, {"toolsListChanged": "x"})
    for wanted in unreadable:
        asked = Broken("subscriptions/listen", None, json.dumps({"notifications": wanted}))
        wire.check("/mcp", asked.body(1, with_envelope=True), {**both, **_modern(asked)})


def test_broken_messages_over_a_pipe(tmp_path: Path) -> None:
    for document in WORKFLOWS:
        (tmp_path / f"{document['name']}.json").write_text(json.dumps(document), encoding="utf-8")
    command = piped_command("mcp", "--db", "penstock.db", "--workflows", ".")
    requests = broken_requests("none", every=11)
    # A line that is no message has no number to answer to; nor has one whose parameters cannot be read.
    ping = json.dumps({"jsonrpc": "2.0", "id": "last", "method": "tools/list", "params": {"_meta": META}})
    with subprocess.Popen(
        command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        written = threading.Thread(target=_write, args=(process, requests, ping.encode()), daemon=True)
        written.start()
        heard = 0
        for line in process.stdout:
            text = line.decode()
            assert not is_internal(text), text[:300]
            heard += 1
            if '"id":"last"' in text:
                break
        written.join(SECONDS_MAX)
        process.stdin.close()
        assert process.wait(SECONDS_MAX) == 0
    assert heard > len(requests) // 2


def _write(process: subprocess.Popen[bytes], requests: list[Broken], last: bytes) -> None:
    assert process.stdin is not None
    for body in GARBAGE:
        process.stdin.write(body.replace(b"\n", b" ") + b"\n")
    for number, broken in enumerate(requests):
        process.stdin.write(broken.body(number, with_envelope=number % 2 == 0) + b"\n")
    process.stdin.write(last + b"\n")
    process.stdin.flush()
