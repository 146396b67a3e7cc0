"""Calls of registered tools (`tool.execute`) and of single tasks (`task.execute`) under SIGKILL.

    scripts/torture single_calls [--quick]

An undisturbed process makes three calls: of a tool that may be repeated, of one that may not, and of a task. It says
how many commits they make. Then one process after the other is killed, each at the next point: after a commit, or while
a step works. Another one makes the same calls with the same idempotency keys, after the claims of the dead process have
timed out, which its clock, a minute ahead, spares it the wait for. Every call may have one run; work is done once. Only
the step that was working when the process died is begun again, and that of the tool that may not be repeated never: its
run asks a person (`waiting_decision`).

The last line is one JSON object; the exit code is not 0 when `ok` is false. `--quick` tries some of the commits.

Above it: `scripts/torture single_calls`, a test. Below it: a gate as a server has it, `agents` for the processes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.app.gate import local_owner, open_gate
from penstock.app.penstock import Penstock
from penstock.base import limits
from penstock.base.json import JsonObject
from penstock.engine.status import run_status
from penstock.operations.gate.context import Request
from penstock.operations.gate.pipeline import AnsweredCall, Gate
from penstock.runtime.ports.host import Committed
from penstock.runtime.ports.runs import RunQuery
from penstock.runtime.steps.registry import step
from penstock.runtime.system import SystemClock
from tests.torture.agents import Point, forked
from tests.torture.worker import DurableLines, read_lines

__all__ = ["main"]

_SECONDS_MAX = 240.0
_TOOLS: dict[str, JsonObject] = {
    "find": {"kind": "step", "name": "work", "annotations": {"idempotent": True}},
    "pay": {"kind": "step", "name": "work", "annotations": {"idempotent": False}},
}
_TASK: JsonObject = {"id": "draft", "type": "step", "handler": "work", "with": {"what": "${ .input }"}}
_WORK = ("find", "pay", "draft")
"""What is done, in this order; the n-th point inside a step is the n-th of these."""
_RUNS = {"find": "tool:find", "pay": "tool:pay", "draft": "task:draft"}
_AT_MOST_ONCE = "pay"
_UNKNOWN = (Point("commit", 3), Point("work", 2))
"""Where nobody knows whether the tool that may not be repeated was called: its run has begun, and not ended."""
_ENDS = ("completed", "waiting_decision")


class _LaterClock(SystemClock):
    """The clock of the process that goes on."""

    def now_ms(self) -> int:
        return super().now_ms() + 6 * limits.IDEMPOTENCY_IN_FLIGHT_MS


async def _live(folder: Path, point: Point) -> None:
    """One life: make the three calls, or make them again, and wait for what came of them."""
    performed, commits, worked = DurableLines(folder / "performed.jsonl"), 0, 0

    @step(name="work")
    async def work(what: str) -> dict[str, str]:
        nonlocal worked
        performed.append({"what": what})
        worked += 1
        point.reached("work", worked)
        return {"did": what}

    def observe(committed: Committed) -> None:
        nonlocal commits
        commits += 1
        point.reached("commit", commits)

    goes_on = (folder / "penstock.db").exists()
    clock = _LaterClock() if goes_on else SystemClock()
    # Who goes on does not wait within a call: a run that asks a person would use up the patience of its caller.
    patience = 0.0 if goes_on else None
    async with (
        asyncio.timeout(_SECONDS_MAX),
        Penstock.open(folder / "penstock.db", steps=[work], clock=clock, observe=observe, governed=True) as penstock,
        open_gate(penstock) as gate,
    ):
        for name, body in _TOOLS.items():
            await _call(gate, "tool.create", patience, id=name, **body)
        for name in _TOOLS:
            await _call(gate, "tool.execute", patience, tool_id=name, arguments={"what": name})
        await _call(gate, "task.execute", patience, task=_TASK, input="draft", sync=True)
        runs, ends, results = {}, {}, {}
        for name, workflow in _RUNS.items():
            rows = (await penstock.store.list_runs(RunQuery(workflow_name=workflow, limit=10))).rows
            runs[name] = len(rows)
            state = await penstock.host.read(rows[0].run_id)
            while state is not None and run_status(state) not in _ENDS:
                state = await penstock.host.wait(state.run_id, after_seq=state.seq, timeout_seconds=_SECONDS_MAX)
            assert state is not None
            ends[name], results[name] = run_status(state), state.result
    report = {"runs": runs, "ends": ends, "results": results, "commits": commits}
    (folder / "report.json").write_text(json.dumps(report))


async def _call(gate: Gate, operation: str, patience: float | None, /, **arguments: Any) -> None:
    """Make a call; one that was made before is not made again."""
    outcome = await gate.call(
        Request(
            operation=operation,
            arguments=arguments,
            principal=local_owner(),
            surface="sdk",
            request_id="torture",
            patience_seconds=patience,
            idempotency_key=f"{operation}-{arguments.get('id', arguments.get('tool_id', ''))}",
        )
    )
    assert isinstance(outcome, AnsweredCall), outcome


@dataclass(slots=True)
class _Count:
    points: int = 0
    kills: int = 0
    called_twice: int = 0
    other_ends: int = 0
    failures: list[str] = field(default_factory=list)


def _torment(point: Point, count: _Count) -> None:
    """Kill a process at a point, let another go on, and look at what was done."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-calls-"))
    count.points += 1
    count.kills += forked(folder, point, _live) == signal.SIGKILL
    forked(folder, Point(), _live)
    report = json.loads((folder / "report.json").read_text())
    performed = Counter(str(line["what"]) for line in read_lines(folder / "performed.jsonl"))
    under_way = _WORK[point.number - 1] if point.kind == "work" else None
    twice = sum(runs - 1 for runs in report["runs"].values()) + sum(performed.values()) - len(performed)
    if under_way is not None and under_way != _AT_MOST_ONCE:
        twice -= 1  # nobody can tell whether the step had done its work
    ends = dict.fromkeys(_WORK, "completed")
    results: dict[str, Any] = {name: {"did": name} for name in _WORK}
    if point in _UNKNOWN:
        ends[_AT_MOST_ONCE], results[_AT_MOST_ONCE] = "waiting_decision", None
    other = (report["ends"], report["results"]) != (ends, results)
    count.called_twice += abs(twice)
    count.other_ends += other
    if twice or other:
        count.failures.append(f"{point.kind} {point.number}: see {folder}")
    else:
        shutil.rmtree(folder)


def main(arguments: list[str] | None = None) -> int:
    """Torture single calls and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="some of the commits")
    quick = parser.parse_args(arguments).quick
    began, count = time.monotonic(), _Count()
    folder = Path(tempfile.mkdtemp(prefix="penstock-calls-"))
    forked(folder, Point(), _live)
    whole = json.loads((folder / "report.json").read_text())
    undisturbed = [str(line["what"]) for line in read_lines(folder / "performed.jsonl")]
    shutil.rmtree(folder)
    points = [
        Point("commit", number) for number in range(3 if quick else 1, int(whole["commits"]) + 1, 2 if quick else 1)
    ]
    points += [Point("work", number) for number in range(1, len(_WORK) + 1)]
    for point in points:
        _torment(point, count)
    report = {
        "points": count.points,
        "kills": count.kills,
        "commits": whole["commits"],
        "called_twice": count.called_twice,
        "other_ends": count.other_ends,
        "failures": count.failures,
        "seconds": round(time.monotonic() - began, 1),
        "ok": not count.failures and count.kills == count.points and undisturbed == list(_WORK),
    }
    print(json.dumps(report))
    return 0 if report["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
