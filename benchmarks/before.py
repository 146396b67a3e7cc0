"""How fast the server is beside an earlier commit of itself, both running, windows in turn.

    scripts/benchmark before [--quick] [--commit NAME | --before CHECKOUT] [--only list_50]

`benchmarks.rest` and `benchmarks.mcp` report the same figures among theirs. The earlier commit is the one that
`--commit` names, with the libraries that it was pinned to; `benchmarks.before_checkout` has the one that is meant
without it, and `ungoverned` is the one before governance. Each server is a process of its own with a file of its own,
the same settings, the same workflows and the same number of stored runs before the first window; one key sends
everything, and its rates are lifted.

- rest_execute: `POST /workflows/{id}/executions` of a workflow with one step, answered when the run is durable; 8
  connections.
- rest_execute_wait: the same of a workflow with five steps, answered when the run has ended; 32 connections.
- mcp_workflow_call: that workflow as a tool, `tools/call` of the era 2026-07-28; 32 connections.
- list_50: a page of 50 runs; 8 connections.

A round has one window of each server for each of these, and the server that begins is another one in every round. After
a window nothing of it is under way any more before the next one begins. A ratio is the median of the ratios of the
rounds, whose two windows follow each other: what else the machine does then is much the same for both. `ratio` is that
of requests in a second. `cpu_ratio` is that of the processor time that the servers used for a request (what its runs
needed after the answer is in it); it depends still less on what else the machine does. Both are above one if this tree
is faster.

The last line is one JSON object; `ok` if every target for this commit holds. There are none for other commits.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import uvloop

from benchmarks.before_checkout import COMMIT, UNGOVERNED, checkout, program_of
from benchmarks.http_load import load, percentile, request_bytes
from benchmarks.mcp.product import mcp_request, tool_call
from benchmarks.servers import LIFTED, cpu_seconds, free_port, missed_targets, owner_key, process, wait_for

__all__ = ["MCP_TARGETS", "REST_TARGETS", "compare", "mcp_figures", "rest_figures"]

REST_TARGETS = {
    "rest_execute_ratio_to_before": ("at_least", 1.6),
    "rest_execute_wait_ratio_to_before": ("at_least", 1.7),
    "list_50_ratio_to_before": ("at_least", 1.9),
}
MCP_TARGETS = {"mcp_workflow_call_ratio_to_before": ("at_least", 2.0)}
# What governance may cost: 15 % of the processor time of a request.
_GOVERNANCE_TARGETS = {
    f"{kind}_cpu_ratio_to_before": ("at_least", 0.85)
    for kind in ("rest_execute", "rest_execute_wait", "list_50", "mcp_workflow_call")
}
_TARGETS = {COMMIT: REST_TARGETS | MCP_TARGETS, UNGOVERNED: _GOVERNANCE_TARGETS}
_NAMED = {"ungoverned": UNGOVERNED}
_REST = ("rest_execute", "rest_execute_wait", "list_50")
_MCP = ("mcp_workflow_call",)
_ROOT = Path(__file__).resolve().parent.parent
_STORED = 60
_DRAINED_SECONDS_MAX = 60.0
_STEPS = '''
from penstock import step


@step(name="double")
async def double(number: int) -> int:
    """Twice the number."""
    return number * 2
'''
_INPUT = {"type": "object", "required": ["number"], "properties": {"number": {"type": "integer"}}}


def _workflow(name: str, steps: int) -> dict[str, Any]:
    """A chain of steps, each of which doubles what the one before it returned."""
    sources = ["input.number", *(f"step_{number}" for number in range(1, steps))]
    nodes: list[dict[str, Any]] = [
        {"id": f"step_{number}", "type": "step", "handler": "double", "with": {"number": f"${{ .{source} }}"}}
        for number, source in enumerate(sources, 1)
    ]
    nodes.append({"id": "done", "type": "end", "output": {"number": f"${{ .step_{steps} }}"}})
    return {"penstock": "v1", "name": name, "description": "Doubles.", "input": _INPUT, "nodes": nodes}


_ONE = _workflow("one", 1)
_FIVE = {**_workflow("five", 5), "expose": {"tool": {"annotations": {"read_only": True}}}}
_ARGUMENTS = {"number": 21}
_EXPECTED = {"number": 672}


@dataclass(frozen=True, slots=True)
class Plan:
    """How long everything takes."""

    rounds: int
    seconds: float


FULL = Plan(rounds=20, seconds=1.0)
QUICK = Plan(rounds=6, seconds=0.7)


@dataclass(slots=True)
class Server:
    """One of the two servers, with what was measured on it."""

    port: int
    pid: int
    client: httpx2.Client
    headers: dict[str, str]
    rates: dict[str, list[float]] = field(default_factory=dict)
    cpu_us: dict[str, list[float]] = field(default_factory=dict)
    latencies_ms: dict[str, list[float]] = field(default_factory=dict)

    def request(self, kind: str) -> bytes:
        """What is sent again and again."""
        match kind:
            case "rest_execute":
                return self._rest("POST", "/workflows/one/executions", {"input": _ARGUMENTS})
            case "rest_execute_wait":
                return self._rest("POST", "/workflows/five/executions", {"input": _ARGUMENTS, "sync": True})
            case "list_50":
                return self._rest("GET", "/executions?limit=50")
            case _:
                return tool_call(self.port, self._tool(), _ARGUMENTS, headers=self.headers)

    def _rest(self, method: str, path: str, body: Any = None) -> bytes:
        encoded = b"" if body is None else json.dumps(body).encode()
        return request_bytes(method, f"/api/v0{path}", port=self.port, headers=self.headers, body=encoded)

    def _tool(self) -> str:
        """What the workflow of five steps is called as a tool."""
        listed = asked(self.client, mcp_request(self.port, "tools/list", headers=self.headers))["result"]["tools"]
        (name,) = [tool["name"] for tool in listed if tool["name"].endswith("five")]
        return str(name)

    def fill(self) -> None:
        """Workflows, and as many runs as a page holds and more."""
        for document in (_ONE, _FIVE):
            self.client.post("/api/v0/workflows", json={"document": document}).raise_for_status()
        for _ in range(_STORED):
            run = asked(self.client, self.request("rest_execute_wait"))
            if run["status"] != "completed" or run["output"] != _EXPECTED:
                raise SystemExit(f"a run of the benchmark ended badly: {run}")

    def check(self) -> None:
        """Refuse to measure a server whose answers are not what is asked for."""
        called = asked(self.client, self.request("mcp_workflow_call"))["result"]
        if called.get("isError") or _EXPECTED["number"] not in _numbers(called["structuredContent"]):
            raise SystemExit(f"the tool of the benchmark answered {called}")
        listed = asked(self.client, self.request("list_50"))
        if len(listed["items"]) != 50:
            raise SystemExit("a page does not have 50 runs")

    def drain(self) -> None:
        """Wait until nothing is under way."""
        until = time.monotonic() + _DRAINED_SECONDS_MAX
        while time.monotonic() < until:
            listed = self.client.get("/api/v0/executions", params={"status": "running", "limit": 1}).raise_for_status()
            if not listed.json()["items"]:
                return
            time.sleep(0.02)
        raise SystemExit("the runs of a window did not end")

    def measure(self, kind: str, connections: int, seconds: float) -> None:
        """One window."""
        request = self.request(kind)
        before = cpu_seconds(self.pid)
        work = load(self.port, lambda: request, connections=connections, seconds=seconds, statuses=(b"2",))
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            found = runner.run(work)
        if found.failures:
            raise SystemExit(f"{found.failures} requests of {kind} failed")
        self.drain()
        used = cpu_seconds(self.pid) - before
        self.rates.setdefault(kind, []).append(found.per_second)
        self.cpu_us.setdefault(kind, []).append(used * 1e6 / len(found.latencies_ms))
        self.latencies_ms.setdefault(kind, []).extend(found.latencies_ms)


_CONNECTIONS = {"rest_execute": 8, "rest_execute_wait": 32, "list_50": 8, "mcp_workflow_call": 32}


def _numbers(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for member in value.values():
            yield from _numbers(member)
    else:
        yield value


def asked(client: httpx2.Client, request: bytes) -> Any:
    """The answer to a request that was made for the load client."""
    head, _, body = request.partition(b"\r\n\r\n")
    first, *lines = head.decode().splitlines()
    method, path, _ = first.split()
    headers = dict(line.split(": ", 1) for line in lines if not line.startswith(("host:", "content-length:")))
    return client.request(method, path, content=body, headers=headers).raise_for_status().json()


@contextmanager
def running(program: Path, folder: Path) -> Iterator[Server]:
    """A server of a checkout, filled."""
    folder.mkdir()
    (folder / "steps.py").write_text(_STEPS, encoding="utf-8")
    port = free_port()
    command = [str(program), "serve", "--port", str(port), "--steps", "steps.py", "--json"]
    with process(command, folder=folder, environment=LIFTED) as pid:
        wait_for(port, "/readyz", seconds=60)
        headers = {"authorization": f"Bearer {owner_key(folder / 'server.log')}"}
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=60) as client:
            server = Server(port, pid, client, headers)
            server.fill()
            server.check()
            yield server


def compare(kinds: tuple[str, ...], before: Path | None, plan: Plan, commit: str = COMMIT) -> dict[str, Any]:
    """Windows of both servers in turn; ratios, and what they come from."""
    compared = checkout(before, commit)
    with (
        tempfile.TemporaryDirectory() as name,
        running(program_of(compared.root), Path(name) / "before") as earlier,
        running(program_of(_ROOT), Path(name) / "now") as now,
    ):
        for kind in kinds:
            for server in (earlier, now):
                server.measure(kind, 4, 0.3)
                for measured in (server.rates, server.cpu_us, server.latencies_ms):
                    measured[kind].clear()
        for number in range(plan.rounds):
            for kind in kinds:
                for server in (earlier, now) if number % 2 == 0 else (now, earlier):
                    server.measure(kind, _CONNECTIONS[kind], plan.seconds)
    figures: dict[str, Any] = {
        f"{kind}_ratio_to_before": _ratio(now.rates[kind], earlier.rates[kind]) for kind in kinds
    }
    figures.update({f"{kind}_cpu_ratio_to_before": _ratio(earlier.cpu_us[kind], now.cpu_us[kind]) for kind in kinds})
    figures["before"] = {"commit": compared.name, **{kind: _details(earlier, kind) for kind in kinds}}
    figures["now"] = {kind: _details(now, kind) for kind in kinds}
    targets = _TARGETS.get(compared.commit or "", {})
    missed = missed_targets(figures, {name: target for name, target in targets.items() if name in figures})
    return {**figures, "missed": missed, "ok": not missed}


def _ratio(ones: list[float], others: list[float]) -> float:
    """The median of the ratios of the rounds."""
    return round(statistics.median(one / other for one, other in zip(ones, others, strict=True)), 3)


def _details(server: Server, kind: str) -> dict[str, float]:
    return {
        "per_second": round(statistics.median(server.rates[kind]), 1),
        "server_cpu_us": round(statistics.median(server.cpu_us[kind])),
        "p50_ms": round(percentile(server.latencies_ms[kind], 0.5), 2),
        "p99_ms": round(percentile(server.latencies_ms[kind], 0.99), 2),
    }


def rest_figures(before: Path | None, *, quick: bool) -> dict[str, Any]:
    """What `benchmarks.rest` reports of this."""
    return compare(_REST, before, QUICK if quick else FULL)


def mcp_figures(before: Path | None, *, quick: bool) -> dict[str, Any]:
    """What `benchmarks.mcp` reports of this."""
    return compare(_MCP, before, QUICK if quick else FULL)


def main() -> int:
    """Measure, print, and say by the exit code whether every target holds."""
    parser = argparse.ArgumentParser(prog="scripts/benchmark before")
    parser.add_argument("--quick", action="store_true", help="about a minute; noisier figures")
    against = parser.add_mutually_exclusive_group()
    against.add_argument("--commit", default=COMMIT, help="the earlier commit, or `ungoverned`")
    against.add_argument("--before", type=Path, help="a checkout of an earlier commit that is set up already")
    parser.add_argument("--only", action="append", choices=(*_REST, *_MCP), help="only this; may be repeated")
    arguments = parser.parse_args()
    kinds = tuple(arguments.only or (*_REST, *_MCP))
    commit = _NAMED.get(arguments.commit, arguments.commit)
    figures = compare(kinds, arguments.before, QUICK if arguments.quick else FULL, commit)
    print(json.dumps(figures))
    return 0 if figures["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
