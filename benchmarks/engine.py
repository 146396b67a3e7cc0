"""How fast the pure engine is, in memory, on one core.

    python -m benchmarks.engine            # or: scripts/benchmark engine

Workloads (the same shapes for which figures of the published engine are known): start-step-end, 5 steps, 20 steps, and
a lighthouse-like routing (model call, switch, tool call). Each run goes through `decide` and `pending` exactly as a
driver would use them: every activity result is an input of its own. No store, no I/O; times are CPU times, best of
several rounds.

Items: the cost per item of a `for_each` over 1,000 and over 10,000 of them, ten at a time.

The anchor is a bare loop that only builds as many equal-sized records and appends them to a list: no engine can be
faster than that. Length: the cost per record of one run of 1,000 records and one of 100,000 (a loop of steps).

The last line is one JSON object; `ok` is true only if every target holds.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.build.workflow import build_workflow
from penstock.definitions.model import Workflow
from penstock.engine import Accepted, Record, Replayed, RunState, decide, fold, inputs, pending, replay
from penstock.engine.effects import PerformActivity
from penstock.engine.records import commands, made

TARGET_RUNS_PER_CPU_SECOND = 3_000
TARGET_COST_RATIO = 1.5  # "linear": a record of a long run may cost at most this much more than one of a short run
TARGET_FOR_EACH_RATIO = 1.3
PUBLISHED_ENGINE_RUNS_PER_CPU_SECOND = (47, 74)
ROUNDS = 5
RUNS_PER_ROUND = 1_500
AT = 1_767_225_600_000


def linear(steps: int) -> JsonObject:
    """A published document: start, a number of steps, end."""
    names = [f"step_{number}" for number in range(steps)]
    chain = ["__start__", "start", *names, "end"]
    middle: list[JsonValue] = [
        {"id": name, "type": "step", "config": {"handler": "urn:benchmark:step"}} for name in names
    ]
    return {
        "document": {"schema": "urn:penstock:benchmark", "name": f"linear-{steps}", "version": "1.0.0"},
        "state_schema": {"type": "object", "properties": {"out": {"type": "string"}}},
        "nodes": [
            {"id": "start", "type": "start"},
            *middle,
            {"id": "end", "type": "end", "config": {"output_mapping": ".out"}},
        ],
        "edges": [{"source": source, "target": target} for source, target in pairwise(chain)],
    }


ROUTING: JsonObject = {
    "document": {"schema": "urn:penstock:benchmark", "name": "routing", "version": "1.0.0"},
    "state_schema": {
        "type": "object",
        "properties": {"topic": {"type": "string"}, "score": {"type": "number"}, "ticket": {"type": "string"}},
    },
    "nodes": [
        {"id": "begin", "type": "start"},
        {
            "id": "classify",
            "type": "llm_call",
            "config": {
                "model": "any",
                "prompt": "Which topic is this about?",
                "output_schema": {
                    "type": "object",
                    "required": ["topic", "score"],
                    "properties": {"topic": {"type": "string"}, "score": {"type": "number"}},
                },
            },
            "retry": {"max_attempts": 3},
        },
        {
            "id": "route",
            "type": "switch",
            "config": {
                "cases": [
                    {"when": '.topic == "invoice" and .score > 0.8', "target": "ticket"},
                    {"when": '.topic == "error"', "target": "search"},
                ],
                "default": "search",
            },
        },
        {"id": "ticket", "type": "tool_call", "config": {"server": "desk", "tool": "open", "arguments": {}}},
        {"id": "search", "type": "tool_call", "config": {"server": "desk", "tool": "search", "arguments": {}}},
        {"id": "finish", "type": "end", "config": {"output_mapping": "{topic, score}"}},
    ],
    "edges": [
        {"source": "__start__", "target": "begin"},
        {"source": "begin", "target": "classify"},
        {"source": "classify", "target": "route"},
        {"source": "ticket", "target": "finish"},
        {"source": "search", "target": "finish"},
    ],
}

LONG: JsonObject = {
    "penstock": "v1",
    "name": "long",
    "input": {"type": "object", "properties": {"rounds": {"type": "integer"}}},
    "nodes": [
        {
            "id": "again",
            "type": "loop",
            "while": ".loop_count.n == null or .loop_count.n < .input.rounds",
            "max_iterations": 10_000,
            "nodes": [
                {"id": "first", "type": "step", "handler": "urn:benchmark:step"},
                {"id": "second", "type": "step", "handler": "urn:benchmark:step"},
                {"id": "loop_count", "type": "step", "handler": "urn:benchmark:count"},
            ],
        },
        {"id": "done", "type": "end", "output": "${ .loop_count.n }"},
    ],
}


ITEMS: JsonObject = {
    "penstock": "v1",
    "name": "items",
    "nodes": [
        {
            "id": "each",
            "type": "for_each",
            "items": ".input.items",
            "as": "item",
            "concurrency": 10,
            "nodes": [
                {"id": "work", "type": "step", "handler": "urn:benchmark:step", "with": {"item": "${ .item }"}},
            ],
        },
        {"id": "done", "type": "end", "output": "${ .each | length }"},
    ],
}


@dataclass(frozen=True)
class Measured:
    """One workload: how many runs and records, in how many CPU seconds."""

    runs: int
    records: int
    seconds: float

    def report(self) -> JsonObject:
        """The figures of a workload."""
        return {
            "runs_per_cpu_second": round(self.runs / self.seconds, 1),
            "records_per_cpu_second": round(self.records / self.seconds),
            "us_per_record": round(self.seconds / self.records * 1e6, 2),
            "records_per_run": self.records // self.runs,
        }


def accepted(outcome: object) -> Accepted:
    """The decision, which must not be a refusal."""
    if not isinstance(outcome, Accepted):
        raise SystemExit(f"the engine refused: {outcome}")
    return outcome


def run_once(workflow: Workflow, given: JsonValue, results: Callable[[str, int], JsonValue]) -> list[Record]:
    """Walk one run to its end as a driver does; the records it made."""
    decision = accepted(decide(workflow, RunState(), inputs.StartRun(at=AT, run_id="r", input=given)))
    records = list(decision.records)
    while not decision.state.terminal:
        for effect in pending(workflow, decision.state, AT):
            if isinstance(effect, PerformActivity):
                done = inputs.CompleteActivity(
                    at=AT,
                    node_id=effect.node_id,
                    visit=effect.visit,
                    attempt=effect.attempt,
                    result=results(effect.node_id, effect.visit),
                )
                decision = accepted(decide(workflow, decision.state, done))
                records.extend(decision.records)
                break
    if decision.state.status != "completed":
        raise SystemExit(f"{workflow.name} ended {decision.state.status}: {decision.state.failure}")
    return records


def measure(workflow: Workflow, given: JsonValue, results: Callable[[str, int], JsonValue], runs: int) -> Measured:
    """The best of several rounds of many runs."""
    best: Measured | None = None
    for _ in range(ROUNDS):
        gc.collect()
        records = 0
        began = time.process_time()
        for _ in range(runs):
            records += len(run_once(workflow, given, results))
        found = Measured(runs, records, time.process_time() - began)
        if best is None or found.seconds < best.seconds:
            best = found
    if best is None:
        raise SystemExit("no rounds were measured")
    return best


def bare_loop(records_per_run: int, runs: int) -> Measured:
    """The anchor: build records of the same kind and append them, nothing else."""
    best: Measured | None = None
    for _ in range(ROUNDS):
        gc.collect()
        began = time.process_time()
        for _ in range(runs):
            log: list[Record] = []
            for number in range(records_per_run):
                log.append(made(number + 1, commands.CompleteNode("step_0", 1, {}), AT, "r"))
        found = Measured(runs, records_per_run * runs, time.process_time() - began)
        if best is None or found.seconds < best.seconds:
            best = found
    if best is None:
        raise SystemExit("no rounds were measured")
    return best


def constant(value: JsonValue) -> Callable[[str, int], JsonValue]:
    """Results that do not depend on the node."""
    return lambda node_id, visit: value


def one_run(document: JsonObject, given: JsonValue, repeat: int) -> tuple[Measured, list[Record]]:
    """The cost of one run, the best of several."""
    workflow = build_workflow(document)
    best: Measured | None = None
    records: list[Record] = []
    for _ in range(repeat):
        gc.collect()
        began = time.process_time()
        records = run_once(workflow, given, lambda node_id, visit: {"n": visit})
        found = Measured(1, len(records), time.process_time() - began)
        if best is None or found.seconds < best.seconds:
            best = found
    if best is None:
        raise SystemExit("no rounds were measured")
    return best, records


def cost_ratio_of_items() -> float:
    """What an item of 10,000 costs more than one of 1,000; as many items in both rounds."""
    few, times = 1_000, 10
    workflow, done = build_workflow(ITEMS), constant({"n": 1})
    short = measure(workflow, {"items": list(range(few))}, done, times)
    long = measure(workflow, {"items": list(range(few * times))}, done, 1)
    return long.seconds / short.seconds


def fold_and_replay(records: list[Record]) -> JsonObject:
    """How fast a history loads, and how fast it is verified."""
    workflow = build_workflow(LONG)
    began = time.process_time()
    state = fold(records)
    folded = time.process_time() - began
    began = time.process_time()
    outcome = replay(workflow, records)
    replayed = time.process_time() - began
    if not isinstance(outcome, Replayed) or outcome.state != state or outcome.missing:
        raise SystemExit("the long history does not replay to its own state")
    return {
        "fold_records_per_cpu_second": round(len(records) / folded),
        "replay_records_per_cpu_second": round(len(records) / replayed),
    }


def main() -> int:
    """Measure everything and print the figures."""
    routed: dict[str, JsonValue] = {"classify": {"topic": "invoice", "score": 0.9}, "ticket": {"ticket": "T-1"}}
    done = constant({"out": "done"})
    measured = {
        "start_step_end": measure(build_workflow(linear(1)), {}, done, RUNS_PER_ROUND),
        "five_steps": measure(build_workflow(linear(5)), {}, done, RUNS_PER_ROUND // 4),
        "twenty_steps": measure(build_workflow(linear(20)), {}, done, RUNS_PER_ROUND // 12),
        "routing": measure(build_workflow(ROUTING), {}, lambda node_id, visit: routed[node_id], RUNS_PER_ROUND // 2),
    }
    for name, found in measured.items():
        print(f"{name:16} {found.report()}", file=sys.stderr)
    single = measured["start_step_end"]
    anchor = bare_loop(single.records // single.runs, RUNS_PER_ROUND)
    short, _ = one_run(LONG, {"rounds": 59}, repeat=40)
    long, records = one_run(LONG, {"rounds": 5_883}, repeat=3)
    items_ratio = cost_ratio_of_items()
    ratio = (long.seconds / long.records) / (short.seconds / short.records)
    runs_per_second = single.runs / single.seconds
    report: JsonObject = {
        "start_step_end_runs_per_cpu_second": round(runs_per_second, 1),
        "records_per_second": round(single.records / single.seconds),
        "us_per_record": round(single.seconds / single.records * 1e6, 2),
        "cost_ratio_100k_to_1k_records": round(ratio, 3),
        "for_each_cost_ratio_10k_to_1k": round(items_ratio, 3),
        "records_of_short_run": short.records,
        "records_of_long_run": long.records,
        "bare_append_records_per_second": round(anchor.records / anchor.seconds),
        "ratio_to_bare_append": round(anchor.seconds / single.seconds, 4),
        "published_engine_runs_per_cpu_second": list(PUBLISHED_ENGINE_RUNS_PER_CPU_SECOND),
        "times_published_engine": round(runs_per_second / PUBLISHED_ENGINE_RUNS_PER_CPU_SECOND[1], 1),
        "workloads": {name: found.report() for name, found in measured.items()},
        **fold_and_replay(records),
        "targets": {
            "start_step_end_runs_per_cpu_second": TARGET_RUNS_PER_CPU_SECOND,
            "cost_ratio_100k_to_1k_records": TARGET_COST_RATIO,
            "for_each_cost_ratio_10k_to_1k": TARGET_FOR_EACH_RATIO,
        },
    }
    ok = runs_per_second >= TARGET_RUNS_PER_CPU_SECOND and ratio <= TARGET_COST_RATIO
    ok = ok and items_ratio <= TARGET_FOR_EACH_RATIO
    print(json.dumps({**report, "ok": ok}))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
