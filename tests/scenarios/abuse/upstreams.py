"""Cases of MCP servers that a workflow calls and that mean harm, over a pipe and over HTTP."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.live.rest.servers import LiveServer, serving
from tests.scenarios.abuse.cases import Case
from tests.scenarios.hostile_upstream import pipe_arguments
from tests.waiting import SECONDS_MAX

__all__ = ["UPSTREAM_CASES", "abused_server"]

_ROOT = Path(__file__).parents[3]
_LISTENING = """
import sys
from tests.scenarios.hostile_upstream import hostile_http

with hostile_http() as url:
    print(url, flush=True)
    sys.stdin.read()
"""
_TOO_LARGE = "MCP_RESULT_TOO_LARGE"


@contextmanager
def hostile_http_process() -> Iterator[str]:
    """The address of a hostile server over HTTP that has a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-c", _LISTENING], cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait(SECONDS_MAX)
        process.stdout.close()


@contextmanager
def abused_server(folder: Path) -> Iterator[LiveServer]:
    """A server with two hostile upstream servers, until the block ends."""
    with hostile_http_process() as url:
        servers = {"pipe": {"command": sys.executable, "args": list(pipe_arguments())}, "web": {"url": url}}
        folder.joinpath("penstock.yaml").write_text(json.dumps({"mcp_servers": servers}), encoding="utf-8")
        with serving(folder) as server:
            yield server


def _call(server: LiveServer, upstream: str, tool: str, arguments: dict[str, Any], timeout: str = "20s") -> Any:
    """The outcome of a run that calls a tool once."""
    name = f"{upstream}_{tool}"
    calls = {"id": "calls", "type": "tool_call", "server": upstream, "tool": tool, "arguments": arguments}
    nodes = [{**calls, "timeout": timeout, "retry": {"max_attempts": 1}}, {"id": "done", "type": "end"}]
    server.request("POST", "workflows", {"document": {"penstock": "v1", "name": name, "nodes": nodes}})
    # Everybody has a pipe of their own: whose server talks without end may wait for it, nobody else does.
    somebody = server.call("POST", "keys", {"name": "somebody", "scopes": ["*"]})["secret"]
    sent = {"sync": True, "wait_seconds": 60}
    return server.call("POST", f"workflows/{name}/executions", sent, key=somebody, timeout=SECONDS_MAX)


def _refused(server: LiveServer, upstream: str, tool: str, codes: tuple[str, ...], **more: Any) -> None:
    told = _call(server, upstream, tool, more.pop("arguments", {}), **more)
    assert told["status"] == "failed", (upstream, tool, str(told)[:300])
    view = server.call("GET", f"executions/{told['execution_id']}")
    assert view["error"]["code"] in codes, (upstream, tool, view["error"])
    assert _call(server, upstream, "pid", {})["status"] == "completed", f"{upstream} is of no use after {tool}"


def _answers_that_are_too_large(server: LiveServer) -> None:
    for upstream, tool, count in (
        ("pipe", "text", 100_000_000),
        ("pipe", "lists", 1_000_000),
        ("pipe", "blocks", 2_000),
        ("web", "text", 20_000_000),
        ("web", "text_in_event", 20_000_000),
        ("web", "lists", 1_000_000),
    ):
        _refused(server, upstream, tool, (_TOO_LARGE,), arguments={"count": count})


def _bodies_that_inflate(server: LiveServer) -> None:
    _refused(server, "web", "gzip_bomb", (_TOO_LARGE,), arguments={"count": 1_000})
    _refused(server, "web", "brotli", ("MCP_PROTOCOL_ERROR",))


def _answers_without_end(server: LiveServer) -> None:
    for upstream, tool in (("pipe", "endless_line"), ("web", "endless_body"), ("web", "endless_event")):
        _refused(server, upstream, tool, (_TOO_LARGE,))
    for upstream, tool in (("pipe", "chatter"), ("web", "chatter"), ("web", "endless_headers")):
        _refused(server, upstream, tool, ("ACTIVITY_TIMEOUT", "TIMEOUT"), timeout="2s")
    _refused(server, "web", "many_headers", ("MCP_CONNECTION_CLOSED",))


UPSTREAM_CASES: tuple[Case, ...] = (
    Case("upstream answers that are too large", _answers_that_are_too_large),
    Case("upstream bodies that inflate", _bodies_that_inflate),
    Case("upstream answers without end", _answers_without_end),
)
