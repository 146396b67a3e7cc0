"""Exhaustive checks of the REST API on a server of its own: `scripts/fuzz-rest`.

First schemathesis tries every operation with data that fits and data that does not, in all its phases, with the key of
the owner and without a valid key; then requests that are broken in every way we know are sent again and again, and
random mistakes on top. The last line is one JSON object; `ok` says whether nothing was found.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.live.governed import ISSUER, govern
from tests.live.rest.broken import broken_requests, mangled
from tests.live.rest.conformance import SETTINGS, check_conformance
from tests.live.rest.seeds import Seeds, seed
from tests.live.rest.servers import LiveServer, serving
from tests.live.rest.wire import exchange, read_answer
from tests.live.tenants import Member
from tests.waiting import SECONDS_MAX

__all__ = ["main"]

# Whose tokens can be revoked.
ISSUERS = {
    "PENSTOCK_SERVER_PUBLIC_URL": "https://flows.example",
    "PENSTOCK_AUTH_OAUTH_ISSUERS": json.dumps({ISSUER: {"issuer": "https://login.example"}}),
}
# What allocators keep and caches hold; a leak of a kilobyte for each request would be many times this.
GROWTH_BYTES_MAX = 16_000_000


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _broken(server: LiveServer, rounds: int) -> tuple[int, list[str], int]:
    """How many requests were sent, which were answered wrongly, and how much memory that took."""
    kinds, wrong = broken_requests(server.key), []
    sent, before = 0, 0
    for number in range(rounds + 3):
        if number == 3:  # after the first rounds, caches are warm
            before = server.resident_bytes()
        for kind in kinds:
            answer = exchange(server.port, kind.parts)
            sent += 1
            fits = kind.may_hang_up if answer is None else answer.status in kind.statuses
            if not fits:
                wrong.append(f"{kind.name}: {answer}")
    return sent, wrong, server.resident_bytes() - before


def _mangled(server: LiveServer, count: int) -> tuple[Counter[int], list[str]]:
    """Statuses of requests with random mistakes, and those that failed the server."""
    statuses: Counter[int] = Counter()
    wrong = []
    for number in range(count):
        with socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS_MAX) as connection:
            connection.sendall(mangled(server.key, number) + b" " * 64)
            try:
                answer = read_answer(connection)
            except ConnectionResetError:
                continue
        if answer is not None:
            statuses[answer.status] += 1
            if answer.status >= 500:  # a failure of the server
                wrong.append(f"seed {number}: {answer}")
    return statuses, wrong


def _server_errors(server: LiveServer) -> float:
    metrics: dict[str, float] = server.call("GET", "metrics")["metrics"]
    counted = [value for name, value in metrics.items() if "http_requests_total" in name and 'status="5' in name]
    return sum(counted)


def _run(folder: Path, examples: int, rounds: int, seed_number: int | None) -> dict[str, Any]:
    data = folder / "server"
    data.mkdir()
    began = time.monotonic()
    with serving(data, **SETTINGS, **ISSUERS) as server:
        seeds = Seeds(seed(server.call) | govern(Member(server, server.key), "default"))
        options = () if seed_number is None else (f"--seed={seed_number}",)
        _say(f"==> schemathesis, {examples} examples for each operation and phase")
        report = check_conformance(server, seeds, folder, *options, examples=examples)
        _say(f"==> {report.cases} cases; the same without a valid key")
        without = check_conformance(server, seeds, folder, *options, examples=examples, stranger="pen_wrong")
        for told in (report, without):
            if told.failures or told.exit_code:
                _say(told.output)
        errors = _server_errors(server)
    _say(f"==> {without.cases} cases; broken requests, {rounds} rounds")
    other = folder / "other"
    other.mkdir()
    # A server of their own: of the seeds of the first one, little is left.
    with serving(other, **SETTINGS) as server:
        seed(server.call)
        sent, wrong, grown = _broken(server, rounds)
        statuses, mangled_wrong = _mangled(server, rounds * 100)
        for line in [*wrong[:20], *mangled_wrong[:20]]:
            _say(line)
        errors += _server_errors(server)
        ready = bool(server.call("GET", "health")["ready"])
    failures = len(report.failures) + len(without.failures) + len(wrong) + len(mangled_wrong)
    exit_code = report.exit_code or without.exit_code
    return {
        "cases": report.cases,
        "cases_without_key": without.cases,
        "schema_failures": len(report.failures),
        "failures_without_key": len(without.failures),
        "operations_untested": report.untested,
        "broken_requests": sent + statuses.total(),
        "broken_answered_wrongly": len(wrong) + len(mangled_wrong),
        "server_errors": errors,
        "memory_grown_mb": round(grown / 1e6, 1),
        "seconds": round(time.monotonic() - began, 1),
        "ok": failures == 0 and errors == 0 and exit_code == 0 and grown < GROWTH_BYTES_MAX and ready,
    }


def main() -> int:
    """Run everything, and say in one line what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=100, help="random calls for each operation and phase")
    parser.add_argument("--rounds", type=int, default=20, help="how often each broken request is sent")
    parser.add_argument("--seed", type=int, default=None, help="repeat a run")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = _run(Path(folder), chosen.examples, chosen.rounds, chosen.seed)
    print(json.dumps(found))
    return 0 if found["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
