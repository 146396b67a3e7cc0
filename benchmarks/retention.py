"""Whether deleting keeps up: the size of the file while runs end as fast as they can and are kept for a short time.

    scripts/benchmark retention                      20 minutes, with a retention of one minute
    scripts/benchmark retention --minutes 3 --keep-seconds 20

Many clients start runs of five steps on a real file, one after the other, and a gate with that retention deletes what
ended. The file may grow while the first runs are kept. From then on it must stay as large as it is: `growth` compares
the last third of the time with the third before it. `stall_ms` is the longest that a client waited for one run. The
last line is one JSON object; `ok` says that the file is flat, that little is left which is past its time, and that
nothing was set aside.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.app.gate import open_gate
from penstock.app.penstock import Penstock
from penstock.app.retention import Retention
from penstock.runtime.steps.registry import step

__all__ = ["main"]

_CLIENTS = 200
_LOOK_SECONDS = 2.0
_GROWTH_MAX = 1.1
# Each kind is looked at every few seconds; so much may be past its time, beside what the last look left.
_LATE_PART_MAX = 0.5


@step(name="add")
async def add(number: int) -> int:
    """One short step."""
    return number + 1


def _document() -> dict[str, Any]:
    steps = [{"id": f"s{number}", "type": "step", "handler": "add", "with": {"number": number}} for number in range(5)]
    return {"penstock": "v1", "name": "adds", "nodes": [*steps, {"id": "done", "type": "end"}]}


@dataclass
class Measured:
    """What was seen while it went on."""

    ended: int = 0
    stall_seconds: float = 0.0
    sizes: list[tuple[float, int]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


async def _client(penstock: Penstock, measured: Measured, until: float) -> None:
    while time.monotonic() < until:
        began = time.perf_counter()
        try:
            await (await penstock.start("adds")).result()
        except Exception as error:  # what goes wrong is counted, and the others go on
            measured.errors.append(repr(error)[:200])
            return
        measured.ended += 1
        measured.stall_seconds = max(measured.stall_seconds, time.perf_counter() - began)


def _size(path: Path) -> int:
    """The bytes of the file that hold something or wait to be used again. The log is cut when it is copied."""
    return path.stat().st_size


async def _look(path: Path, measured: Measured, began: float, until: float) -> None:
    while time.monotonic() < until:
        measured.sizes.append((time.monotonic() - began, await asyncio.to_thread(_size, path)))
        await asyncio.sleep(_LOOK_SECONDS)


async def _measure(folder: Path, minutes: float, keep_seconds: float) -> dict[str, Any]:
    path, measured = folder / "penstock.db", Measured()
    retention = Retention(runs_ms=int(keep_seconds * 1000), audit_ms=int(keep_seconds * 1000))
    async with (
        Penstock.open(path, workflows=[_document()], steps=[add]) as penstock,
        open_gate(penstock, retention=retention) as gate,
    ):
        began = time.monotonic()
        until = began + minutes * 60
        clients = [_client(penstock, measured, until) for _ in range(_CLIENTS)]
        await asyncio.gather(_look(path, measured, began, until), *clients)
        late_before = int(time.time() * 1000) - int(keep_seconds * 1000)
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            counting = "SELECT count(*), count(*) FILTER (WHERE updated_at < ?) FROM runs WHERE terminal = 1"
            stored, late = connection.execute(counting, (late_before,)).fetchone()
        health = (await gate.services.checks())["retention"]
    third = minutes * 60 / 3
    middle = max(size for at, size in measured.sizes if third <= at < 2 * third)
    last = max(size for at, size in measured.sizes if at >= 2 * third)
    rate = measured.ended / (minutes * 60)
    return {
        "minutes": minutes,
        "keep_seconds": keep_seconds,
        "runs": measured.ended,
        "runs_per_second": round(rate),
        "stored": stored,
        "late": late,
        "stall_ms": round(measured.stall_seconds * 1000),
        "megabytes": [round(size / 1e6, 1) for _, size in measured.sizes[:: max(1, len(measured.sizes) // 20)]],
        "growth": round(last / middle, 3),
        "health": health,
        "errors": measured.errors[:5],
        "ok": last / middle <= _GROWTH_MAX
        and late <= _LATE_PART_MAX * max(stored, 1)
        and health == "ok"
        and not measured.errors,
    }


def main() -> int:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(prog="scripts/benchmark retention", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--keep-seconds", type=float, default=60.0, help="how long ended runs are kept")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-retention-") as folder:
        told = asyncio.run(_measure(Path(folder), given.minutes, given.keep_seconds))
    print(json.dumps(told))
    return 0 if told["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
