"""What REST costs, beside a bare FastAPI and a bare Starlette endpoint on the same server software, all in one run.

    scripts/benchmark rest [--quick] [--before CHECKOUT]

Each server is a process of its own; the load comes from another one, over keep-alive connections on 127.0.0.1.

- reads: `GET /executions/{id}` of an ended run, against the bare endpoints that return an object of like size; rounds
  alternate, and the ratio is that of the medians. The product's request is authenticated, checked, charged against its
  key's rate, answered from the store and written down; the bare ones do nothing. Rates of the benchmark's key are
  lifted, because one key sends everything here.
- list: a page of 50 runs. execute: `POST /workflows/{id}/executions`, answered when the run is durable.
- streams: 1,000 open event streams on one waiting run; held are those that saw its end after it was answered.
- before: the same server of an earlier commit and this one in turn, see `benchmarks.before`.
- start: from the command to the first answered request, best of three with a warm cache. Memory: of the server's
  process, after all of that, with the streams open.

The last line is one JSON object; `ok` if every target holds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx2

from benchmarks.before import REST_TARGETS, rest_figures
from benchmarks.durable.peers import PEERS_PYTHON, ensure_peers
from benchmarks.http_load import Measured, load, percentile, request_bytes
from benchmarks.servers import (
    LIFTED,
    cpu_seconds,
    free_port,
    missed_targets,
    owner_key,
    process,
    rss_mb,
    wait_for,
)

_HERE = Path(__file__).resolve().parent
_STREAMS = 1_000
_TARGETS = {
    "read_ratio_to_bare_fastapi": ("at_least", 0.4),
    "rss_mb": ("at_most", 120.0),
    "ready_ms": ("at_most", 1_000.0),
    "sse_streams_held": ("at_least", float(_STREAMS)),
    **REST_TARGETS,
}
_STEP = '''
from penstock import step


@step(name="double")
async def double(number: int) -> int:
    """Twice the number."""
    return number * 2
'''
_DOUBLE: dict[str, Any] = {
    "penstock": "v1",
    "name": "bench",
    "input": {"type": "object", "required": ["number"], "properties": {"number": {"type": "integer"}}},
    "nodes": [
        {"id": "doubled", "type": "step", "handler": "double", "with": {"number": "${ .input.number }"}},
        {"id": "done", "type": "end", "output": {"doubled": "${ .doubled }"}},
    ],
}
_ASK: dict[str, Any] = {
    "penstock": "v1",
    "name": "ask",
    "nodes": [
        {"id": "question", "type": "interrupt", "prompt": "Go on?"},
        {"id": "done", "type": "end", "output": {"answer": "${ .question }"}},
    ],
}


def penstock_command(port: int) -> list[str]:
    """The command that starts the product in the current folder."""
    program = Path(sys.executable).with_name("penstock")
    return [str(program), "serve", "--port", str(port), "--steps", "steps.py", "--json"]


def ready_times(folder: Path, tries: int) -> list[float]:
    """How long it takes from the command to the first answer, each on a new file."""
    found = []
    for number in range(tries):
        place = folder / f"start{number}"
        place.mkdir()
        (place / "steps.py").write_text(_STEP, encoding="utf-8")
        port = free_port()
        with process(penstock_command(port), folder=place, environment=LIFTED):
            found.append(wait_for(port, "/healthz"))
    return found


class Product:
    """The product under load."""

    def __init__(self, port: int, key: str, pid: int) -> None:
        self.port, self.pid = port, pid
        self.headers = {"authorization": f"Bearer {key}"}
        self.client = httpx2.Client(base_url=f"http://127.0.0.1:{port}/api/v0", headers=self.headers, timeout=30)

    def prepare(self) -> str:
        """Workflows and a few runs; the id of one that has ended."""
        for document in (_DOUBLE, _ASK):
            self.client.post("/workflows", json={"document": document}).raise_for_status()
        found = ""
        for number in range(60):
            body = {"input": {"number": number}, "sync": True}
            answer = self.client.post("/workflows/bench/executions", json=body)
            answer.raise_for_status()
            run = answer.json()
            if run["status"] != "completed":
                raise SystemExit(f"a run of the benchmark ended badly: {run}")
            found = run["execution_id"]
        return found

    def request(self, method: str, path: str, body: Any = None) -> bytes:
        """A request of the benchmark's key."""
        encoded = b"" if body is None else json.dumps(body).encode()
        return request_bytes(method, f"/api/v0{path}", port=self.port, headers=self.headers, body=encoded)


async def one_load(port: int, request: bytes, connections: int, seconds: float) -> Measured:
    """The same request again and again."""
    found = await load(port, lambda: request, connections=connections, seconds=seconds, statuses=(b"2",))
    if found.failures:
        raise SystemExit(f"{found.failures} requests failed")
    return found


def reads(
    product: Product, bare: dict[str, tuple[int, int]], run_id: str, rounds: int, seconds: float
) -> dict[str, Any]:
    """Reads of the product and of the bare endpoints in turn."""
    requests = {
        name: (port, pid, request_bytes("GET", "/executions/x", port=port, headers={}))
        for name, (port, pid) in bare.items()
    }
    requests["penstock"] = (product.port, product.pid, product.request("GET", f"/executions/{run_id}"))
    rates: dict[str, list[float]] = {name: [] for name in requests}
    per_cpu: dict[str, list[float]] = {name: [] for name in requests}
    latencies: list[float] = []
    for _ in range(rounds):
        for name, (port, pid, request) in requests.items():
            before = cpu_seconds(pid)
            found = asyncio.run(one_load(port, request, 32, seconds))
            rates[name].append(found.per_second)
            per_cpu[name].append(len(found.latencies_ms) / max(0.01, cpu_seconds(pid) - before))
            if name == "penstock":
                latencies.extend(found.latencies_ms)
    middle = {name: statistics.median(values) for name, values in rates.items()}
    middle_cpu = {name: statistics.median(values) for name, values in per_cpu.items()}
    return {
        "reads_per_second": {name: round(value) for name, value in middle.items()},
        "reads_per_cpu_second": {name: round(value) for name, value in middle_cpu.items()},
        "read_p50_ms": round(percentile(latencies, 0.5), 2),
        "read_p99_ms": round(percentile(latencies, 0.99), 2),
        "read_ratio_to_bare_fastapi": round(middle["penstock"] / middle["fastapi"], 3),
        "read_ratio_to_bare_starlette": round(middle["penstock"] / middle["starlette"], 3),
        "read_cpu_ratio_to_bare_fastapi": round(middle_cpu["penstock"] / middle_cpu["fastapi"], 3),
    }


async def hold_streams(product: Product, run_id: str, count: int) -> tuple[int, float]:
    """Open streams on a waiting run, answer it, and count those that see the end; memory while all are open."""
    headers = {**product.headers, "connection": "close"}
    request = request_bytes("GET", f"/api/v0/executions/{run_id}/stream", port=product.port, headers=headers)
    connections = []
    for _ in range(count):
        reader, writer = await asyncio.open_connection("127.0.0.1", product.port)
        writer.write(request)
        connections.append((reader, writer))
    for reader, _ in connections:
        await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)
    memory = rss_mb(product.pid)
    await asyncio.to_thread(
        lambda: product.client.post(f"/executions/{run_id}/answers", json={"answer": {"go": True}}).raise_for_status()
    )

    async def saw_end(reader: asyncio.StreamReader) -> bool:
        try:
            return b"event: complete" in await asyncio.wait_for(reader.read(-1), 60)
        except (TimeoutError, OSError):
            return False

    held = sum(await asyncio.gather(*(saw_end(reader) for reader, _ in connections)))
    for _, writer in connections:
        writer.close()
    return held, memory


def product_figures(folder: Path, bare: dict[str, tuple[int, int]], *, rounds: int, seconds: float) -> dict[str, Any]:
    """Everything that is measured on one running server."""
    (folder / "steps.py").write_text(_STEP, encoding="utf-8")
    port = free_port()
    with process(penstock_command(port), folder=folder, environment=LIFTED) as pid:
        wait_for(port, "/readyz")
        product = Product(port, owner_key(folder / "server.log"), pid)
        run_id = product.prepare()
        idle = rss_mb(pid)
        found = reads(product, bare, run_id, rounds, seconds)
        listed = asyncio.run(one_load(port, product.request("GET", "/executions?limit=50"), 8, seconds))
        body = {"input": {"number": 21}}
        executed = asyncio.run(one_load(port, product.request("POST", "/workflows/bench/executions", body), 8, seconds))
        started = product.client.post("/workflows/ask/executions", json={}).json()
        held, memory = asyncio.run(hold_streams(product, started["execution_id"], _STREAMS))
    return {
        **found,
        "list_50_per_second": round(listed.per_second),
        "list_50_p50_ms": round(percentile(listed.latencies_ms, 0.5), 2),
        "executes_per_second": round(executed.per_second),
        "execute_p50_ms": round(percentile(executed.latencies_ms, 0.5), 2),
        "execute_p99_ms": round(percentile(executed.latencies_ms, 0.99), 2),
        "sse_streams_held": held,
        "rss_idle_mb": round(idle, 1),
        "rss_mb": round(memory, 1),
    }


def main() -> int:
    """Measure, print, and say by the exit code whether every target holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="shorter rounds; noisier figures")
    parser.add_argument("--before", type=Path, help="a checkout of the earlier commit that is set up already")
    arguments = parser.parse_args()
    quick = arguments.quick
    rounds, seconds = (3, 2.0) if quick else (7, 4.0)
    ensure_peers()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        starts = ready_times(folder, 4)
        ports = {kind: free_port() for kind in ("fastapi", "starlette")}
        program = str(_HERE / "rest_bare.py")
        commands = {kind: [str(PEERS_PYTHON), program, kind, str(port)] for kind, port in ports.items()}
        with (
            process(commands["fastapi"], folder=folder) as fastapi,
            process(commands["starlette"], folder=folder) as starlette,
        ):
            for port in ports.values():
                wait_for(port, "/executions/x")
            bare = {"fastapi": (ports["fastapi"], fastapi), "starlette": (ports["starlette"], starlette)}
            place = folder / "product"
            place.mkdir()
            figures = product_figures(place, bare, rounds=rounds, seconds=seconds)
    # The first start compiles; the best of the others is that of a warm cache.
    figures = {"ready_ms": round(min(starts[1:])), "ready_ms_all": [round(value) for value in starts], **figures}
    figures.update(rest_figures(arguments.before, quick=quick))
    missed = missed_targets(figures, _TARGETS)
    figures.update({"missed": missed, "ok": not missed})
    print(json.dumps(figures))
    return 0 if not missed else 1


if __name__ == "__main__":
    sys.exit(main())
