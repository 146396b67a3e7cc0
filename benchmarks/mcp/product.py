"""The product in `benchmarks.mcp`: its folder with workflows, one ended run and a key, and its requests.

The key may use a part of what there is: some operations and some workflows are hidden from it, so that filtering is
really done. Exactly 200 tools are left: built-in operations that it may call, and workflows for the rest.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from benchmarks.http_load import request_bytes
from benchmarks.servers import LIFTED

__all__ = ["ENVIRONMENT", "TOOL", "TOOLS", "Prepared", "mcp_request", "penstock_command", "prepare", "tool_call"]

TOOLS = 200
TOOL = "penstock_execution_status"
_HIDDEN = 20
_SCOPES = ["workflow:read", "workflow:run", "execution:*", "schedule:*", "bench:visible"]
_VERSION = "2026-07-28"
_META = "io.modelcontextprotocol/"
_ENVELOPE: dict[str, Any] = {
    f"{_META}protocolVersion": _VERSION,
    f"{_META}clientCapabilities": {},
    f"{_META}clientInfo": {"name": "benchmark", "version": "1"},
}
ENVIRONMENT = {
    **LIFTED,
    # The default lists workflows and what follows their runs; here operations are to be listed and filtered as well.
    "PENSTOCK_SERVER_MCP_TOOLSET": "all",
}


@dataclass(frozen=True, slots=True)
class Prepared:
    """What the measured requests need."""

    key: str
    run_id: str
    tools: list[dict[str, Any]]
    result: dict[str, Any]

    def headers(self) -> dict[str, str]:
        """How the key is shown."""
        return {"authorization": f"Bearer {self.key}"}


def penstock_command(port: int) -> list[str]:
    """The command that starts the product in the current folder."""
    return [str(Path(sys.executable).with_name("penstock")), "serve", "--port", str(port), "--json"]


def mcp_request(port: int, method: str, *, headers: dict[str, str], run_id: str = "") -> bytes:
    """A request of the newest era: `tools/list`, or `tools/call` of the tool that looks at a run."""
    if method == "tools/call":
        return tool_call(port, TOOL, {"execution_id": run_id}, headers=headers)
    return _newest(port, method, {}, headers)


def tool_call(port: int, tool: str, arguments: dict[str, Any], *, headers: dict[str, str]) -> bytes:
    """A call of a tool, as a client of the newest era sends it."""
    params = {"name": tool, "arguments": arguments}
    return _newest(port, "tools/call", params, {"mcp-name": tool, **headers})


def _newest(port: int, method: str, params: dict[str, Any], headers: dict[str, str]) -> bytes:
    sent = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": _VERSION,
        "mcp-method": method,
        **headers,
    }
    message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": {"_meta": _ENVELOPE, **params}}
    body = json.dumps(message).encode()
    return request_bytes("POST", "/mcp", port=port, headers=sent, body=body)


def _workflow(number: int, scope: str) -> dict[str, Any]:
    """A workflow with four inputs and a description as people write them."""
    text = {"type": "string", "description": "The text that this parameter takes, in a sentence of usual length."}
    return {
        "penstock": "v1",
        "name": f"bench-{number:03}",
        "title": f"Benchmark workflow {number}",
        "description": f"Workflow number {number} of the benchmark. It takes four inputs and gives one of them back "
        "without any other work; nothing outside is changed by it.",
        "expose": {"tool": {"annotations": {"read_only": True}}},
        "governance": {"scopes": [scope]},
        "input": {
            "type": "object",
            "required": ["first"],
            "properties": {"first": text, "second": text, "third": {"type": "integer"}, "fourth": {"type": "boolean"}},
        },
        "nodes": [{"id": "done", "type": "end", "output": {"first": "${ .input.first }"}}],
    }


def prepare(port: int, owner: str) -> Prepared:
    """Fill a running server, and ask it once what the others shall answer too."""
    with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        client.headers["authorization"] = f"Bearer {owner}"
        made = client.post("/api/v0/keys", json={"name": "bench", "scopes": _SCOPES})
        key: str = made.raise_for_status().json()["secret"]
        built_in = len(_asked(client, key, "tools/list")["tools"])
        for number in range(TOOLS - built_in + _HIDDEN):
            scope = "bench:hidden" if number < _HIDDEN else "bench:visible"
            document = {"document": _workflow(number, scope)}
            client.post("/api/v0/workflows", json=document).raise_for_status()
        body = {"input": {"first": "a"}, "sync": True}
        run = client.post("/api/v0/workflows/bench-000/executions", json=body).raise_for_status().json()
        if run["status"] != "completed":
            raise SystemExit(f"a run of the benchmark ended badly: {run}")
        run_id: str = run["execution_id"]
        tools = _asked(client, key, "tools/list")["tools"]
        result = _asked(client, key, "tools/call", run_id)
    if len(tools) != TOOLS or result["isError"]:
        raise SystemExit(f"{len(tools)} tools are listed, and the call gave {result}")
    result.pop("_meta")
    return Prepared(key, run_id, tools, result)


def _asked(client: httpx2.Client, key: str, method: str, run_id: str = "") -> dict[str, Any]:
    whole = mcp_request(0, method, headers={}, run_id=run_id)
    head, _, body = whole.partition(b"\r\n\r\n")
    lines = (line.partition(": ") for line in head.decode().splitlines()[1:])
    headers = {name: value for name, _, value in lines if name not in ("host", "content-length")}
    headers["authorization"] = f"Bearer {key}"
    answer = client.post("/mcp", content=body, headers=headers).raise_for_status().json()
    result: dict[str, Any] = answer["result"]
    return result
