"""How fast and how small the console is: a list of 100,000 runs, a run of 50,000 records, its scripts, and its stream.

    python -m benchmarks.console      # or: scripts/benchmark console

A file is filled in bulk with 100,000 runs of a tenant and as many of others, and gets one run whose history has
50,000 records: a loop that the engine performed. A server on 127.0.0.1 is asked for pages like a browser does, with
the cookie of somebody who signed in. The server's time is from sending the request to the last byte; nothing is
drawn. The run is asked for once before it is measured, as its view is made once for each state of a run; the first
time is told apart (`run_page_cold_ms`).
`sse_update_ms` is from the answer to a call that moves a run until the event of it arrives on the stream.

The last line is one JSON object; `ok` is true only if every target is reached.
"""

from __future__ import annotations

import gzip
import http.client
import json
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from benchmarks.listing import fill
from benchmarks.servers import LIFTED, free_port, missed_targets, owner_key, process, wait_for
from penstock.console.assets import assets

# Half of the runs in the file are of other tenants.
RUNS, ROUNDS, MOVES = 200_000, 30, 20
RECORDS = 50_000
TARGETS = {
    "runs_list_100k_server_ms_p50": ("at_most", 100.0),
    "run_page_50k_records_server_ms_p50": ("at_most", 150.0),
    "page_kb_gzip_max": ("at_most", 60.0),
    "script_kb_gzip": ("at_most", 40.0),
    "sse_update_ms_p50": ("at_most", 200.0),
}
COUNTS: dict[str, Any] = {
    "penstock": "v1",
    "name": "counts",
    "state": {"type": "object", "properties": {"number": {"type": "integer"}}},
    "nodes": [
        {"id": "begin", "type": "set_state", "set": {"number": 0}},
        {"id": "add", "type": "set_state", "set": {"number": "${ .state.number + 1 }"}},
        {
            "id": "enough",
            "type": "switch",
            "cases": [{"when": ".state.number < .input.rounds", "next": "add"}],
            "default": "ask",
        },
        {"id": "ask", "type": "wait", "signal": "go"},
        {"id": "done", "type": "end"},
    ],
}


class Visitor:
    """A browser without a window: one connection and a cookie."""

    def __init__(self, port: int, key: str) -> None:
        self.port, self.key = port, key
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        origin = {"Origin": f"http://127.0.0.1:{port}", "Content-Type": "application/x-www-form-urlencoded"}
        status, headers, _ = self._asked("POST", "/console/sign-in", urlencode({"key": key}), origin)
        if status != 303:
            raise SystemExit(f"signing in answered {status}")
        self.cookie = headers["set-cookie"].partition(";")[0]

    def _asked(
        self, method: str, path: str, body: str | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        self.connection.request(method, path, body, headers or {})
        answer = self.connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()

    def page(self, path: str) -> tuple[float, bytes]:
        """A page, and how many milliseconds it took."""
        began = time.perf_counter()
        status, _, body = self._asked("GET", path, headers={"Cookie": self.cookie})
        took = (time.perf_counter() - began) * 1000
        if status != 200:
            raise SystemExit(f"{path} answered {status}: {body[:500]!r}")
        return took, body

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Call an operation over REST."""
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        status, _, answer = self._asked(method, f"/api/v0/{path}", None if body is None else json.dumps(body), headers)
        if status >= 400:
            raise SystemExit(f"{path} answered {status}: {answer[:500]!r}")
        return json.loads(answer)


def grown(visitor: Visitor) -> str:
    """A run with a history of the wanted length, which waits."""
    visitor.call("POST", "workflows", {"document": COUNTS})
    tried: dict[str, Any] = visitor.call("POST", "workflows/counts/executions", {"input": {"rounds": 100}})
    short = settled(visitor, tried["execution_id"])
    rounds = RECORDS * 100 // short["sequence"] + 100
    begun = visitor.call("POST", "workflows/counts/executions", {"input": {"rounds": rounds}})
    long = settled(visitor, begun["execution_id"])
    if long["sequence"] < RECORDS:
        raise SystemExit(f"the history has only {long['sequence']} records")
    found: str = long["execution_id"]
    return found


def settled(visitor: Visitor, execution_id: str) -> dict[str, Any]:
    """A run that waits for its signal."""
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline:
        found: dict[str, Any] = visitor.call("GET", f"executions/{execution_id}")
        if found["status"] == "waiting_signal":
            return found
        if found["status"] in ("failed", "cancelled"):
            raise SystemExit(f"the run ended: {found['error']}")
        time.sleep(0.2)
    raise SystemExit("the run does not wait")


class Stream:
    """The stream of a browser, read in a thread: when each run was last named."""

    def __init__(self, visitor: Visitor) -> None:
        self.named: dict[str, float] = {}
        self.heard = threading.Event()
        self._connection = http.client.HTTPConnection("127.0.0.1", visitor.port, timeout=300)
        self._connection.request("GET", "/console/events", headers={"Cookie": visitor.cookie})
        self._answer = self._connection.getresponse()
        threading.Thread(target=self._read, daemon=True).start()
        if not self.heard.wait(30):
            raise SystemExit("the stream says nothing")

    def _read(self) -> None:
        while line := self._answer.readline():
            if line.startswith(b"data: {"):
                for name in json.loads(line[6:])["executions"]:
                    self.named[name] = time.perf_counter()
            self.heard.set()


def update_ms(visitor: Visitor, stream: Stream) -> list[float]:
    """How long the events of moves take."""
    found = []
    for number in range(MOVES):
        name = f"moved-{number}"
        visitor.call("POST", "workflows/counts/executions", {"input": {"rounds": 1}, "execution_id": name})
        began = time.perf_counter()
        while name not in stream.named:
            if time.perf_counter() - began > 30:
                raise SystemExit(f"no event names {name}")
            time.sleep(0.001)
        found.append((stream.named[name] - began) * 1000)
    return found


def measured(visitor: Visitor) -> dict[str, Any]:
    """Every figure."""
    run_id = grown(visitor)
    lists = ["/console/runs", "/console/runs?status=waiting_input", "/console/runs?workflow_id=refund&status=completed"]
    lists += ["/console/runs?started_by=key:1", "/console/runs?started_by=key:1&status=completed"]
    listed = [visitor.page(path)[0] for _ in range(ROUNDS) for path in lists]
    run_page = f"/console/runs/{run_id}"
    cold, _ = visitor.page(run_page)
    shown = [visitor.page(f"{run_page}?after={number * 1_000}")[0] for number in range(ROUNDS)]
    pages = [*lists, "/console", run_page, f"{run_page}?after=25000", "/console/workflows"]
    sizes = {path: len(gzip.compress(visitor.page(path)[1], 6)) / 1000 for path in pages}
    scripts = sum(len(asset.compressed) for name, asset in assets().items() if name.endswith(".js"))
    return {
        "runs_list_100k_server_ms_p50": round(statistics.median(listed), 1),
        "runs_list_100k_server_ms_p99": round(sorted(listed)[int(len(listed) * 0.99)], 1),
        "run_page_50k_records_server_ms_p50": round(statistics.median(shown), 1),
        "run_page_cold_ms": round(cold, 1),
        "page_kb_gzip_max": round(max(sizes.values()), 1),
        "script_kb_gzip": round(scripts / 1000, 1),
        "sse_update_ms_p50": round(statistics.median(update_ms(visitor, Stream(visitor))), 1),
    }


def main() -> int:
    """Fill a file, serve it, ask for pages."""
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), free_port()
        print(f"filling a file with {RUNS:,} runs", file=sys.stderr)
        fill(folder / "penstock.db", RUNS)
        command = [sys.executable, "-m", "penstock", "serve", "--port", str(port), "--json"]
        with process([*command, "--db", "penstock.db"], folder=folder, environment=LIFTED):
            wait_for(port, "/healthz", seconds=60)
            figures = measured(Visitor(port, owner_key(folder / "server.log")))
    missed = missed_targets(figures, TARGETS)
    for item in missed:
        print(f"{item}: {figures[item]}, target {TARGETS[item][1]:g}", file=sys.stderr)
    print(json.dumps({**figures, "ok": not missed}))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
