"""What MCP costs, beside a raw ASGI answer, the SDK's low-level server and FastMCP, all in one run.

    scripts/benchmark mcp [--quick] [--before CHECKOUT]

Every server is a process of its own on 127.0.0.1 with the same HTTP stack (uvicorn, httptools, uvloop; the product's
protocol is uvicorn's with bounds of its own, and sends the head of an answer with its body). The requests are of the
era 2026-07-28, and one load client sends them over keep-alive connections, without asking for compression. All list the
same 200 tools and answer a call with the same value: the others are given what the product answered. The tools are some
forty operations and, for the rest, workflows; with their input and output schemas the list has some 400 kB.

- The product does all that it does for anybody: the key is looked up in the store and checked, tools that the key may
  not use are filtered out, the call (`execution.status` of an ended run) is validated, authorized, charged, answered
  from the store, counted and written down. Rates are lifted, because one key sends everything here. By default
  workflows are listed and what follows their runs; `server.mcp.toolset` is `all` so that operations are listed, too.
- The others (`peers`) hold what they answer ready and do nothing else. `sdk` is the SDK's server as it comes, which
  can stream, as the product's can; `sdk_json` gives that up for speed. `fastmcp` is FastMCP as it comes.
- Rounds alternate between the servers; a figure is the median of its rounds, a ratio that of the medians. Processor
  time of the server per request is given too: it depends less on what else the machine does.
- overhead: MCP call and REST call of the same operation with the same key, one connection each, in turn.
- 100 lists at once: on open connections, until the last is answered.
- before: a call of a workflow with five steps at an earlier commit and at this one in turn, see `benchmarks.before`.
- start: from the command to the first list that is answered, best of the tries with a warm cache; a product that has
  been up for a while has loaded what it needs for that, which `first_list_ms` shows. Memory: after all.

The last line is one JSON object; `ok` if every target holds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import uvloop

from benchmarks.before import MCP_TARGETS, mcp_figures
from benchmarks.durable.peers import PEERS_PYTHON, ensure_peers
from benchmarks.http_load import Measured, load, percentile, request_bytes
from benchmarks.mcp.product import ENVIRONMENT, TOOLS, Prepared, mcp_request, penstock_command, prepare
from benchmarks.servers import cpu_seconds, free_port, missed_targets, owner_key, process, rss_mb, wait_for

_PROGRAM = Path(__file__).resolve().with_name("peers.py")
_PEERS = ("raw", "sdk", "sdk_json", "fastmcp")
_OURS = "penstock"
_METHODS = {"list": "tools/list", "call": "tools/call"}
_AT_ONCE = 100
# By then a product that shows workflows has loaded what MCP needs.
_WARM_SECONDS = 4.0
_ANSWER_SECONDS_MAX = 180
_TARGETS = {
    "list_200_ratio_to_sdk_c32": ("at_least", 10.0),
    "call_200_ratio_to_sdk_c32": ("at_least", 6.0),
    "call_overhead_over_rest_ms_p50": ("at_most", 1.0),
    **MCP_TARGETS,
}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Plan:
    """How long everything takes."""

    rounds: int
    seconds: float
    starts: int
    bursts: int


_FULL = Plan(rounds=5, seconds=1.5, starts=4, bursts=3)
_QUICK = Plan(rounds=2, seconds=0.5, starts=2, bursts=1)


@dataclass(frozen=True, slots=True)
class Server:
    """A server that runs."""

    name: str
    port: int
    pid: int
    requests: dict[str, bytes]


@dataclass(frozen=True, slots=True)
class Cell:
    """One server under one load for one round."""

    per_second: float
    cpu_us: float
    latencies_ms: list[float]


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run something on the fastest loop, so that the servers are what is measured."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def peer_command(kind: str, port: int, folder: Path) -> list[str]:
    """The command that starts one of the others."""
    return [str(PEERS_PYTHON), "-P", str(_PROGRAM), kind, str(port), *map(str, sources(folder))]


def sources(folder: Path) -> tuple[Path, Path]:
    """Where the tools and the result stand."""
    return folder / "tools.json", folder / "result.json"


def command_of(name: str, port: int, folder: Path) -> tuple[list[str], Path]:
    """The command of a server, and the folder that it starts in."""
    place = folder / name
    place.mkdir(exist_ok=True)
    return (penstock_command(port) if name == _OURS else peer_command(name, port, folder)), place


@contextmanager
def started(name: str, folder: Path, port: int) -> Iterator[int]:
    """A server of this name; its process id."""
    command, place = command_of(name, port, folder)
    with process(command, folder=place, environment=ENVIRONMENT) as pid:
        yield pid


def request_of(name: str, kind: str, port: int, known: Prepared) -> bytes:
    """The request that everybody gets; the product's with a key."""
    headers = known.headers() if name == _OURS else {}
    return mcp_request(port, _METHODS[kind], headers=headers, run_id=known.run_id)


def filled(folder: Path) -> Prepared:
    """A product with everything that is asked for, and what the others shall answer."""
    port = free_port()
    with started(_OURS, folder, port):
        wait_for(port, "/readyz")
        known = prepare(port, owner_key(folder / _OURS / "server.log"))
    for path, value in zip(sources(folder), (known.tools, known.result), strict=True):
        path.write_text(json.dumps(value), encoding="utf-8")
    return known


def first_answers(names: tuple[str, ...], folder: Path, known: Prepared, tries: int) -> dict[str, list[float]]:
    """From the command to the first list, in milliseconds; the tries of all in turn."""
    found: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(tries):
        for name in names:
            port = free_port()
            request = request_of(name, "list", port, known)
            with started(name, folder, port):
                found[name].append(_until_answered(port, request))
    return found


def _until_answered(port: int, request: bytes) -> float:
    began = time.perf_counter()
    while time.perf_counter() - began < 60:
        try:
            answers = run(together(port, request, 1))
        except OSError:
            time.sleep(0.002)
            continue
        if answers.failures:
            raise SystemExit(f"the first list on port {port} was not answered with 200")
        return (time.perf_counter() - began) * 1000
    raise SystemExit(f"nothing answers on port {port}")


async def together(port: int, request: bytes, count: int) -> Measured:
    """The same request on so many open connections at once, each answered once."""
    connections = [await asyncio.open_connection("127.0.0.1", port, limit=2**22) for _ in range(count)]
    found = Measured()
    began = time.perf_counter()

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(request)
        head, _ = await asyncio.wait_for(_read_answer(reader), _ANSWER_SECONDS_MAX)
        found.latencies_ms.append((time.perf_counter() - began) * 1000)
        found.failures += head[9:12] != b"200"
        writer.close()

    await asyncio.gather(*(one(*connection) for connection in connections))
    found.seconds = time.perf_counter() - began
    return found


def measured(server: Server, request: bytes, connections: int, seconds: float) -> Cell:
    """One round."""
    before = cpu_seconds(server.pid)
    found = run(load(server.port, lambda: request, connections=connections, seconds=seconds, statuses=(b"200",)))
    if found.failures:
        raise SystemExit(f"{found.failures} requests to {server.name} failed")
    used = cpu_seconds(server.pid) - before
    return Cell(found.per_second, used * 1_000_000 / max(1, len(found.latencies_ms)), found.latencies_ms)


def middle(cells: list[Cell]) -> dict[str, float]:
    """The median round, and how long requests took over all rounds."""
    latencies = [value for cell in cells for value in cell.latencies_ms]
    return {
        "per_second": round(statistics.median(cell.per_second for cell in cells), 1),
        "p50_ms": round(percentile(latencies, 0.5), 3),
        "p99_ms": round(percentile(latencies, 0.99), 3),
        "server_cpu_us": round(statistics.median(cell.cpu_us for cell in cells), 1),
    }


def grid(servers: list[Server], plan: Plan) -> dict[str, dict[str, dict[str, float]]]:
    """List and call, one connection and 32, rounds in turn; by what was asked and by server."""
    shapes = [(kind, connections) for kind in _METHODS for connections in (1, 32)]
    cells: dict[tuple[str, str], list[Cell]] = {}
    for _ in range(plan.rounds):
        for kind, connections in shapes:
            for server in servers:
                place = (f"{kind}_c{connections}", server.name)
                cells.setdefault(place, []).append(measured(server, server.requests[kind], connections, plan.seconds))
    found: dict[str, dict[str, dict[str, float]]] = {}
    for (shape, name), rounds in cells.items():
        found.setdefault(shape, {})[name] = middle(rounds)
    return found


def bursts(servers: list[Server], plan: Plan) -> dict[str, float]:
    """How long 100 lists at once take until the last is answered."""
    found: dict[str, list[float]] = {server.name: [] for server in servers}
    for _ in range(plan.bursts):
        for server in servers:
            answers = run(together(server.port, server.requests["list"], _AT_ONCE))
            if answers.failures:
                raise SystemExit(f"{answers.failures} of {_AT_ONCE} lists of {server.name} failed")
            found[server.name].append(answers.seconds * 1000)
    return {name: round(statistics.median(values), 1) for name, values in found.items()}


def overhead(ours: Server, known: Prepared, plan: Plan) -> dict[str, float]:
    """What a call over MCP takes more than the same call over REST, one after the other on one connection."""
    rest = request_bytes("GET", f"/api/v0/executions/{known.run_id}", port=ours.port, headers=known.headers())
    by_kind: dict[str, list[Cell]] = {"rest": [], "mcp": []}
    for _ in range(max(3, plan.rounds)):
        by_kind["rest"].append(measured(ours, rest, 1, plan.seconds))
        by_kind["mcp"].append(measured(ours, ours.requests["call"], 1, plan.seconds))
    figures = {kind: middle(cells) for kind, cells in by_kind.items()}
    return {
        "rest_p50_ms": figures["rest"]["p50_ms"],
        "mcp_p50_ms": figures["mcp"]["p50_ms"],
        "rest_server_cpu_us": figures["rest"]["server_cpu_us"],
        "mcp_server_cpu_us": figures["mcp"]["server_cpu_us"],
        "difference_ms": round(figures["mcp"]["p50_ms"] - figures["rest"]["p50_ms"], 3),
    }


def checked(server: Server, known: Prepared) -> None:
    """Refuse to measure a server that lists or answers anything else than the product."""
    answers = {kind: run(_answer(server.port, request)) for kind, request in server.requests.items()}
    names = [tool["name"] for tool in answers["list"]["result"]["tools"]]
    same = answers["call"]["result"]["structuredContent"] == known.result["structuredContent"]
    if sorted(names) != sorted(tool["name"] for tool in known.tools) or len(names) != TOOLS or not same:
        raise SystemExit(f"{server.name} does not answer what the product answers")


async def _answer(port: int, request: bytes) -> Any:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**22)
    writer.write(request)
    _, body = await asyncio.wait_for(_read_answer(reader), _ANSWER_SECONDS_MAX)
    writer.close()
    return json.loads(body)


async def _read_answer(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """The head and the body; of an answer so slow that the server began to stream, the chunks as they came."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if b"transfer-encoding: chunked" in head:
        return head, await reader.readuntil(b"\r\n0\r\n\r\n")
    at = head.index(b"content-length:") + len(b"content-length:")
    return head, await reader.readexactly(int(head[at : head.index(b"\r", at)]))


def ratios(cells: dict[str, dict[str, dict[str, float]]], value: Callable[[dict[str, float]], float]) -> dict[str, Any]:
    """How many times what each of the others does the product does."""
    return {
        f"{shape}_to_{name}": round(value(by_server[_OURS]) / value(by_server[name]), 3)
        for shape, by_server in cells.items()
        for name in _PEERS
    }


def figures_of(folder: Path, known: Prepared, plan: Plan) -> dict[str, Any]:
    """Everything that is measured on running servers."""
    with ExitStack() as stack:
        servers = []
        idle: dict[str, float] = {}
        for name in (*_PEERS, _OURS):
            port = free_port()
            pid = stack.enter_context(started(name, folder, port))
            wait_for(port, "/healthz" if name == _OURS else "/nothing")
            idle[name] = round(rss_mb(pid), 1)
            servers.append(Server(name, port, pid, {kind: request_of(name, kind, port, known) for kind in _METHODS}))
        ours = servers[-1]
        time.sleep(_WARM_SECONDS)
        first = run(together(ours.port, ours.requests["list"], 1)).latencies_ms[0]
        for server in servers:
            checked(server, known)
            for kind in _METHODS:
                measured(server, server.requests[kind], 4, 0.2)
        cells = grid(servers, plan)
        more = overhead(ours, known, plan)
        at_once = bursts(servers, plan)
        memory = {server.name: round(rss_mb(server.pid), 1) for server in servers}
    by_rate = ratios(cells, lambda cell: cell["per_second"])
    return {
        "list_200_ratio_to_sdk_c32": by_rate["list_c32_to_sdk"],
        "call_200_ratio_to_sdk_c32": by_rate["call_c32_to_sdk"],
        "call_200_ratio_to_sdk_json_c32": by_rate["call_c32_to_sdk_json"],
        "call_200_ratio_to_fastmcp_c32": by_rate["call_c32_to_fastmcp"],
        "call_overhead_over_rest_ms_p50": more["difference_ms"],
        "rss_mb": memory[_OURS],
        "first_list_ms": round(first, 1),
        "ratios_per_second": by_rate,
        "ratios_per_server_cpu": ratios(cells, lambda cell: 1 / max(1.0, cell["server_cpu_us"])),
        "overhead": more,
        "lists_100_at_once_ms": at_once,
        "rss_mb_all": memory,
        "rss_mb_before_the_first_request": idle,
        "cells": cells,
        "list_bytes": len(json.dumps(known.tools, separators=(",", ":"))),
        "call_bytes": len(json.dumps(known.result, separators=(",", ":"))),
    }


def main() -> int:
    """Measure, print, and say by the exit code whether every target holds."""
    parser = argparse.ArgumentParser(
        prog="scripts/benchmark mcp", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="shorter rounds; noisier figures")
    parser.add_argument("--before", type=Path, help="a checkout of the earlier commit that is set up already")
    arguments = parser.parse_args()
    plan = _QUICK if arguments.quick else _FULL
    ensure_peers()
    before = os.getloadavg()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        known = filled(folder)
        starts = first_answers((*_PEERS, _OURS), folder, known, plan.starts)
        figures = figures_of(folder, known, plan)
    # The first start compiles; the best of the others is that of a warm cache.
    best = {name: round(min(values[1:])) for name, values in starts.items()}
    figures = {"start_ms": best[_OURS], "start_ms_all": best, **figures}
    figures["load_average"] = [round(value, 2) for value in (*before[:1], *os.getloadavg()[:1])]
    figures["stack"] = {package: version(package) for package in ("uvicorn", "httptools", "uvloop", "starlette", "mcp")}
    figures.update(mcp_figures(arguments.before, quick=arguments.quick))
    missed = missed_targets(figures, _TARGETS)
    figures.update({"missed": missed, "ok": not missed})
    print(json.dumps(figures))
    return 0 if not missed else 1


if __name__ == "__main__":
    sys.exit(main())
