"""Changes through the gate under SIGKILL: every acknowledged change has exactly one audit record, and the other way.

A process makes changes of many kinds through a gate on one file, some of several things at once (imports, tools of
other servers), notes each answer on the disk, and is killed at random moments; in half of its lives one audit insert of
eight fails. Afterwards the file says what there is, and the trail says what was allowed. `acknowledged_without_audit`
counts changes that took effect, answered or not, and have not exactly one record; `audit_without_change` counts records
of allowed changes that did not take effect.

    python -m tests.torture.audited FOLDER SEED

Above it: `torture`. Below it: a gate as a server has it.
"""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from penstock.app.gate import local_owner, open_gate
from penstock.app.penstock import Penstock
from penstock.base.errors import Unavailable
from penstock.base.json import JsonObject
from penstock.operations.gate.context import GateLimits, Request
from penstock.operations.gate.pipeline import AnsweredCall, Gate
from penstock.runtime.ports.platform import AuditQuery
from penstock.runtime.ports.runs import RunQuery
from penstock.runtime.stores.sqlite.schema.log_notes import NotedConnection
from penstock.runtime.tables.api_keys import list_keys
from penstock.runtime.tables.audit.records import list_audit
from penstock.runtime.tables.resources import list_all_resources
from penstock.runtime.upstreams.tools import ImportRules, UpstreamTool
from tests.torture.worker import DurableLines, read_lines
from tests.waiting import wait_until

__all__ = ["Audited", "torment_changes"]

_ROOT = Path(__file__).resolve().parents[2]
_GREET: JsonObject = {"penstock": "v1", "nodes": [{"id": "done", "type": "end", "output": "hello"}]}
_CALLERS = 8
_CALLS_MAX = 10**9
_FAILURES = (
    "CREATE TRIGGER no_audit BEFORE INSERT ON audit WHEN abs(random()) % 8 = 0 BEGIN SELECT RAISE(ABORT, 'no'); END"
)
# What a change is known by in the trail: its operation and request id; in the store: the name that it made.
_SINGLE = ("schema.create", "key.create", "webhook.create", "workflow.create", "workflow.execute")
# Calls that change several things at once are known by the subjects of their records.
_IMPORT, _ACCEPT = "workflow.import", "upstream.accept"
_KINDS = (*_SINGLE, _IMPORT, _ACCEPT)
_AT_ONCE = 3


@dataclass(slots=True)
class Audited:
    """What was found."""

    changes: int = 0
    acknowledged: int = 0
    without_audit: int = 0
    without_change: int = 0


def _things(kind: str, name: str) -> list[str]:
    """What a call makes."""
    return [name] if kind in _SINGLE else [f"{name}-{number}" for number in range(_AT_ONCE)]


def _call(kind: str, name: str, server: str) -> dict[str, Any]:
    match kind:
        case "workflow.import":
            return {"workflows": [{**_GREET, "name": one.replace("-", "_")} for one in _things(kind, name)]}
        case "upstream.accept":
            return {"server": server, "tools": ["*"]}
        case "schema.create":
            return {"id": name, "schema": {}}
        case "key.create":
            return {"name": name, "scopes": ["workflow:read"]}
        case "webhook.create":
            return {"url": f"https://example.com/{name}"}
        case "workflow.create":
            return {"document": {**_GREET, "name": name.replace("-", "_")}}
        case _:
            return {"workflow_id": "greet", "execution_id": name}


async def _make(gate: Gate, random: Random, acknowledged: DurableLines, life: str) -> None:
    """Make changes until the process is killed."""
    number = 0
    while True:
        number += 1
        kind = random.choice(_KINDS)
        name = f"c{life}-{random.randrange(10**9)}-{number}"
        if kind == _ACCEPT and not await _listed(gate, life, name):
            continue
        outcome = await gate.call(
            Request(
                operation=kind,
                arguments=_call(kind, name, life),
                principal=local_owner(),
                surface="sdk",
                request_id=name,
                idempotency_key=name if random.random() < 0.5 else None,
            )
        )
        if isinstance(outcome, AnsweredCall):
            for thing in _things(kind, name):
                acknowledged.append({"kind": kind, "name": thing})
        await asyncio.sleep(random.random() * 0.002)


async def _listed(gate: Gate, server: str, name: str) -> bool:
    """Let a server list new tools; whether that could be put on record."""
    board = gate.services.upstreams
    assert board is not None
    board.rules = {**board.rules, server: ImportRules(prefix=server, tools=("*",), tenants=("*",))}
    try:
        await board.tools_listed(server, tuple(UpstreamTool(name=one) for one in _things(_ACCEPT, name)))
    except Unavailable:
        return False
    return True


async def victim(folder: Path, seed: int) -> None:
    """One life."""
    random, acknowledged = Random(seed), DurableLines(folder / "acknowledged.jsonl")
    chosen = GateLimits(write_per_minute=_CALLS_MAX, admin_per_minute=_CALLS_MAX)
    async with Penstock.open(folder / "penstock.db") as penstock, open_gate(penstock, chosen=chosen) as gate:
        await asyncio.gather(*(_make(gate, random, acknowledged, f"{seed}-{caller}") for caller in range(_CALLERS)))


def torment_changes(folder: Path, random: Random, kills: int) -> Audited:
    """Let changes be made and their process be killed, and count what does not fit."""
    path = folder / "penstock.db"
    asyncio.run(_prepare(path))
    for life in range(kills):
        with closing(sqlite3.connect(path, timeout=10, factory=NotedConnection)) as connection, connection:
            connection.execute("DROP TRIGGER IF EXISTS no_audit")
            if life % 2:
                connection.execute(_FAILURES)
        command = [sys.executable, "-m", "tests.torture.audited", str(folder), str(random.randrange(10**9))]
        acknowledged = folder / "acknowledged.jsonl"
        size = _size(acknowledged)
        worker = subprocess.Popen(command, cwd=_ROOT, stderr=subprocess.DEVNULL)
        # A life counts from its first answer: on a busy machine a process may need seconds to begin.
        wait_until(lambda: _size(acknowledged) > size or worker.poll() is not None)  # noqa: B023  # called at once
        try:
            worker.wait(timeout=1.0 + random.random())
        except subprocess.TimeoutExpired:
            worker.send_signal(signal.SIGKILL)
            worker.wait()
    with closing(sqlite3.connect(path, timeout=10, factory=NotedConnection)) as connection, connection:
        connection.execute("DROP TRIGGER IF EXISTS no_audit")
    return asyncio.run(_examine(folder))


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


async def _prepare(path: Path) -> None:
    async with Penstock.open(path) as penstock, open_gate(penstock) as gate:
        document: JsonObject = {**_GREET, "name": "greet"}
        await gate.call(
            Request(
                operation="workflow.create",
                arguments={"document": document},
                principal=local_owner(),
                surface="sdk",
                request_id="prepare",
            )
        )


async def _examine(folder: Path) -> Audited:
    """Compare what there is with what the trail says."""
    async with Penstock.open(folder / "penstock.db") as penstock, open_gate(penstock) as gate:
        there = await _there(gate)
        recorded: Counter[str] = Counter()
        after = 0
        while True:
            page = await list_audit(
                gate.services.platform,
                AuditQuery(tenant="default", after_seq=after, outcome="allowed", oldest_first=True, limit=1_000),
            )
            for record in page.records:
                after = record.seq
                entry = record.entry
                if entry.operation in _SINGLE and entry.request_id != "prepare":
                    recorded[str(entry.request_id)] += 1
                elif entry.operation in (_IMPORT, _ACCEPT) and "replayed" not in entry.details:
                    recorded[str(entry.subject).rpartition("/")[2].replace("_", "-")] += 1
            if not page.has_more:
                break
    told = {str(line["name"]) for line in read_lines(folder / "acknowledged.jsonl")}
    return Audited(
        changes=len(there),
        acknowledged=len(told),
        without_audit=sum(recorded[name] != 1 for name in there | told),
        without_change=sum(name not in there for name in recorded),
    )


async def _there(gate: Gate) -> set[str]:
    """The names of everything that was made."""
    platform, store = gate.services.platform, gate.services.store
    found = {row.resource_id for row in await list_all_resources(platform, "schema")}
    for row in await list_all_resources(platform, "webhook"):
        found.add(str(row.body["url"]).rpartition("/")[2])
    found |= {row.resource_id.rpartition("/")[2] for row in await list_all_resources(platform, "upstream_tool")}
    cursor: str | None = None
    while True:
        keys = await list_keys(platform, tenant=None, limit=200, cursor=cursor)
        found |= {row.name for row in keys.rows}
        cursor = keys.next_cursor
        if cursor is None:
            break
    found |= {
        row.name.replace("_", "-") for row in await store.definitions.list_newest(tenant=None) if row.name != "greet"
    }
    found |= {row.run_id for row in (await store.list_runs(RunQuery(limit=100_000))).rows}
    return {name for name in found if name.startswith("c")}


if __name__ == "__main__":
    asyncio.run(victim(Path(sys.argv[1]), int(sys.argv[2])))
