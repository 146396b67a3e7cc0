"""Agents under SIGKILL: after each of its commits, inside a turn of the model, and inside a tool.

    scripts/torture agents [--quick]

An undisturbed agent says how many commits there are: of its run, and of the runs that its calls start. Then one process
after the other is killed, each at the next point, and another one goes on. What was recorded of a turn may not be asked
again, a call may not be made again, and the conversation must be the undisturbed one. A turn, or the step of a tool,
that is under way when the process dies is begun again, and that one only. Before its last turn, the agent summarises
what there is no room for; that counts as a turn.

Every process is a fork of one that has imported everything. The last line is one JSON object; the exit code is not 0
when `ok` is false. `--quick` tries some of the commits, one turn and one tool.

Above it: `scripts/torture agents`, `single_calls`, a test. Below it: a gate as a server has it, a scripted model.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.app.gate import local_owner, open_gate
from penstock.app.penstock import Penstock
from penstock.base.json import JsonObject
from penstock.operations.gate.context import Request
from penstock.operations.gate.pipeline import AnsweredCall, Gate
from penstock.runtime.executors.llm.executor import LlmExecutor
from penstock.runtime.executors.llm.mock import MockProvider
from penstock.runtime.executors.llm.port import LlmAnswer, LlmRequest
from penstock.runtime.ports.host import Committed
from penstock.runtime.ports.runs import RunQuery
from penstock.runtime.steps.registry import step
from tests.torture.worker import DurableLines, read_lines

__all__ = ["Point", "forked", "main"]

_SECONDS_MAX = 240.0
_AGENT = "the-agent"
_LOOK: JsonObject = {
    "penstock": "v1",
    "name": "look_up",
    "input": {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}},
    "expose": {"tool": True},
    "nodes": [
        {"id": "look", "type": "step", "handler": "look", "with": {"number": "${ .input.id }"}},
        {"id": "done", "type": "end", "output": "${ .look }"},
    ],
}
_SUPPORT: JsonObject = {
    "penstock": "v1",
    "name": "support",
    "agent": {
        "model": "fast",
        "instructions": "Help.",
        "tools": ["workflow:look_up"],
        "limits": {"parallel_tools": 2},
        "conversation": {"characters": 1000, "summarize": True},
    },
}
_NOTE = "x" * 400  # so that two results are more than the model reads


def _calls(*ids: str) -> JsonObject:
    return {"tool_calls": [{"name": "workflow:look_up", "arguments": {"id": one}} for one in ids]}


_TURNS: tuple[Any, ...] = (_calls("A-1", "A-2"), _calls("A-3"), "All of them were sent.")
_CALLS = ("A-1", "A-2", "A-3")
_SUMMARY = "A-1 and A-2 were sent."
_ASKED = len(_TURNS) + 1


@dataclass(frozen=True, slots=True)
class Point:
    """Where a process dies: after its n-th commit, in its n-th turn, or in its n-th tool; never if it has no kind."""

    kind: str = ""
    number: int = 0

    def reached(self, kind: str, count: int) -> None:
        """Die, if this is it."""
        if (kind, count) == (self.kind, self.number):
            os.kill(os.getpid(), signal.SIGKILL)


@dataclass(slots=True)
class _Model:
    """Says the same at the same point of a conversation, and notes on the disk that it was asked."""

    asked: DurableLines
    point: Point
    models: Mapping[str, str] = field(default_factory=lambda: {"fast": "fast"})
    count: int = 0

    async def ask(self, request: LlmRequest) -> LlmAnswer:
        # What was said before may be summarised, so the last result tells where it is.
        results = "".join(message.text for message in request.messages if message.role == "tool")
        summarizes = (request.system or "").startswith("You summarise")
        taken = -1 if summarizes else 2 if "A-3" in results else 1 if results else 0
        said = [f"{message.role}: {message.text}" for message in request.messages]
        self.asked.append({"turn": taken, "said": said})  # type: ignore[dict-item]  # a list of texts is JSON
        self.count += 1
        self.point.reached("turn", self.count)
        return await MockProvider([_SUMMARY if summarizes else _TURNS[taken]]).ask(request)

    async def close(self) -> None:
        pass


async def _live(folder: Path, point: Point) -> None:
    """One life: go on with the agent, or begin it, until it has answered."""
    performed, commits, looked = DurableLines(folder / "performed.jsonl"), 0, 0

    @step(name="look")
    async def look(number: str) -> dict[str, str]:
        nonlocal looked
        performed.append({"number": number})
        looked += 1
        point.reached("tool", looked)
        return {"id": number, "status": "sent", "note": _NOTE}

    def observe(committed: Committed) -> None:
        nonlocal commits
        commits += 1
        point.reached("commit", commits)

    model = _Model(DurableLines(folder / "asked.jsonl"), point)
    async with (
        asyncio.timeout(_SECONDS_MAX),
        Penstock.open(
            folder / "penstock.db",
            steps=[look],
            executors={"llm_call": LlmExecutor({"scripted": model})},
            observe=observe,
            governed=True,
        ) as penstock,
        open_gate(penstock) as gate,
    ):
        for document in (_LOOK, _SUPPORT):
            await _call(gate, "workflow.create", f"create-{document['name']}", document=document)
        given = {"workflow_id": "support", "input": {"prompt": "Go."}, "execution_id": _AGENT}
        await _call(gate, "workflow.execute", "execute", **given)
        state = await penstock.host.wait_for_end(_AGENT, timeout_seconds=_SECONDS_MAX)
        assert state is not None
        assert isinstance(state.values, dict)
        calls = (await penstock.store.list_runs(RunQuery(workflow_name="look_up", limit=100))).rows
        report = {
            "status": state.status.value,
            "conversation": state.values["conversation"],
            "calls": len(calls),
            "commits": commits,
        }
    (folder / "report.json").write_text(json.dumps(report))


async def _call(gate: Gate, operation: str, key: str, /, **arguments: Any) -> None:
    """Make a call; one that was made before is not made again."""
    outcome = await gate.call(
        Request(
            operation=operation,
            arguments=arguments,
            principal=local_owner(),
            surface="sdk",
            request_id="torture",
            idempotency_key=key,
        )
    )
    assert isinstance(outcome, AnsweredCall), outcome


def forked(folder: Path, point: Point, live: Callable[[Path, Point], Coroutine[Any, Any, None]]) -> int:
    """Let a process live; return the signal that killed it, or 0."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            asyncio.run(live(folder, point))
            code = 0
        except BaseException:  # told before the process ends, whatever it is
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return os.WTERMSIG(status)
    if os.waitstatus_to_exitcode(status):
        raise RuntimeError(f"a process ended by itself, see {folder}")
    return 0


@dataclass(slots=True)
class _Count:
    points: int = 0
    kills: int = 0
    turns_paid_twice: int = 0
    tools_called_twice: int = 0
    other_conversations: int = 0
    failures: list[str] = field(default_factory=list)


def _torment(point: Point, whole: JsonObject, asked: list[JsonObject], count: _Count) -> None:
    """Kill a process at a point, let another go on, and compare with the undisturbed agent."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-agents-"))
    count.points += 1
    count.kills += forked(folder, point, _live) == signal.SIGKILL
    forked(folder, Point(), _live)
    report = json.loads((folder / "report.json").read_text())
    lines = read_lines(folder / "asked.jsonl")
    turns = Counter(json.dumps(line["turn"]) for line in lines)
    # The turn in which the process died is asked again; nobody can tell whether it was answered.
    under_way = 1 if point.kind == "turn" else 0
    paid_twice = max(0, len(lines) - len(turns) - under_way)
    performed = Counter(str(line["number"]) for line in read_lines(folder / "performed.jsonl"))
    repeated = sum(performed.values()) - len(performed)
    called_twice = max(0, int(report["calls"]) - len(_CALLS)) + (repeated if point.kind == "turn" else 0)
    same = report["conversation"] == whole["conversation"] and report["status"] == whole["status"] == "completed"
    said = {json.dumps(line["said"]) for line in lines} == {json.dumps(line["said"]) for line in asked}
    count.turns_paid_twice += paid_twice
    count.tools_called_twice += called_twice
    count.other_conversations += not (same and said and set(performed) == set(_CALLS))
    if paid_twice or called_twice or not (same and said and set(performed) == set(_CALLS)):
        count.failures.append(f"{point.kind} {point.number}: see {folder}")
    else:
        shutil.rmtree(folder)


def main(arguments: list[str] | None = None) -> int:
    """Torture agents and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="some of the commits, one turn and one tool")
    quick = parser.parse_args(arguments).quick
    began, count = time.monotonic(), _Count()
    folder = Path(tempfile.mkdtemp(prefix="penstock-agents-"))
    forked(folder, Point(), _live)
    whole, asked = json.loads((folder / "report.json").read_text()), read_lines(folder / "asked.jsonl")
    shutil.rmtree(folder)
    commits = int(whole["commits"])
    points = [Point("commit", number) for number in range(2 if quick else 1, commits + 1, 5 if quick else 1)]
    for kind, number in (("turn", _ASKED), ("tool", len(_CALLS))):
        points += [Point(kind, 3)] if quick else [Point(kind, one) for one in range(1, number + 1)]
    for point in points:
        _torment(point, whole, asked, count)
    report = {
        "points": count.points,
        "kills": count.kills,
        "commits": commits,
        "turns_paid_twice": count.turns_paid_twice,
        "tools_called_twice": count.tools_called_twice,
        "other_conversations": count.other_conversations,
        "failures": count.failures,
        "seconds": round(time.monotonic() - began, 1),
        "ok": not count.failures and count.kills > 0 and len(asked) == _ASKED,
    }
    print(json.dumps(report))
    return 0 if report["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
