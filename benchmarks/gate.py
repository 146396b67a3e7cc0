"""What the gate costs, beside the same handler without a gate, with 50 and with 500 policies, all in one run.

    scripts/benchmark gate [--quick]

Everything happens in one process, on an SQLite file, with audit records and limits as a server has them (rates are
lifted: one key sends everything).

- gate: `workflow.get` of a stored workflow through the whole gate, each time for a new principal with one of 40
  combinations of groups, so that no decision is found in a cache; policies look at the argument. Beside it the handler
  alone.
- list: what of 200 and of 1,000 tools a principal may see. Cold is a principal that was never seen before; warm is the
  same one again. Building the page for MCP is not part of it.
- writes: changes with an audit record in their transaction, by 64 callers at once. The rate depends on what else the
  machine does; the processor time of a write (`audited_write_cpu_us`) hardly does.

The last line is one JSON object; `ok` if every target holds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.servers import missed_targets
from penstock.app.gate import open_gate
from penstock.app.penstock import Penstock
from penstock.operations.catalogue.capability import Capability
from penstock.operations.gate.context import Context, GateLimits, Principal, Request
from penstock.operations.gate.pipeline import AnsweredCall, Gate
from penstock.operations.gate.policy_stage import Standpoint
from penstock.runtime.ports.platform import CallRecord

_TARGETS = {
    "gate_p50_ms": ("at_most", 1.0),
    "gate_p99_ms": ("at_most", 3.0),
    "list_200_warm_ms": ("at_most", 1.0),
    "list_1000_warm_ms": ("at_most", 1.0),
    "list_200_cold_ms": ("at_most", 30.0),
}
_LIFTED = 10_000_000
_GROUPS = 40
_WRITERS = 64
_OWNER = Principal(id="key:owner", tenant="default", kind="person", scopes=frozenset({"*"}))
_HELLO: dict[str, Any] = {"penstock": "v1", "name": "hello", "nodes": [{"id": "done", "type": "end"}]}
_TOOL = {**_HELLO, "name": "tool", "expose": {"tool": True}}


def policy_text(count: int) -> str:
    """Policies as a company has them: most of them permit one group something, some forbid by arguments and origin."""
    rules = [
        '@id("read") permit (principal, action in [Action::"read", Action::"write"], resource);',
        '@id("kind") forbid (principal is Agent, action in Action::"admin", resource);',
        '@id("network") forbid (principal, action in Action::"call", resource) when { context.network has address'
        ' && context.network.address.isInRange(ip("203.0.113.0/24")) };',
        '@id("name") forbid (principal, action == Action::"workflow.get", resource)'
        ' when { context.input.workflow_id like "secret-*" };',
        '@id("tenant") forbid (principal, action, resource) unless { principal.tenant == resource.tenant };',
        '@id("risk") forbid (principal is Agent, action, resource) when { resource.risk == "critical" };',
    ]
    while len(rules) < count:
        number = len(rules)
        rules.append(
            f'@id("group-{number}") permit (principal in Group::"group-{number % _GROUPS}", action in Action::"call",'
            f' resource) when {{ principal.scopes.contains("*") && context.surface != "surface-{number}" }};'
        )
    return "\n".join(rules)


def principal(number: int) -> Principal:
    """Somebody in two of the groups."""
    groups = frozenset({f"group-{number % _GROUPS}", f"group-{(number + 7) % _GROUPS}"})
    return Principal(id=f"key:{number}", tenant="default", kind="agent", scopes=frozenset({"*"}), groups=groups)


@asynccontextmanager
async def opened(folder: Path, policies: int) -> AsyncIterator[Gate]:
    """A gate with so many policies."""
    limits = GateLimits(
        read_per_minute=_LIFTED, write_per_minute=_LIFTED, admin_per_minute=_LIFTED, concurrent_per_key=_LIFTED
    )
    files: tuple[str, ...] = ()
    if policies:
        file = folder / "policies.cedar"
        file.write_text(policy_text(policies), encoding="utf-8")
        files = (str(file),)
    path = folder / f"gate-{policies}.db"
    async with (
        Penstock.open(path, perform=False) as penstock,
        open_gate(penstock, chosen=limits, policy_files=files) as gate,
    ):
        for document in (_HELLO, _TOOL):
            await _answered(gate, "workflow.create", {"document": document})
        yield gate


async def _answered(gate: Gate, operation: str, arguments: dict[str, Any], who: Principal | None = None) -> Any:
    request = Request(
        operation=operation, arguments=arguments, principal=who or _OWNER, surface="rest", request_id="bench"
    )
    outcome = await gate.call(request)
    if not isinstance(outcome, AnsweredCall):
        raise TypeError(f"{operation}: {outcome.error}")
    return outcome.reply


async def call_times(gate: Gate, calls: int) -> list[float]:
    """How long calls through the gate take, in milliseconds, each of a principal with other decisions."""
    times = []
    for number in range(calls):
        who = principal(number)
        began = time.perf_counter()
        await _answered(gate, "workflow.get", {"workflow_id": "hello"}, who)
        times.append((time.perf_counter() - began) * 1_000)
    return times


async def handler_times(gate: Gate, calls: int) -> list[float]:
    """How long the handler alone takes."""
    capability = gate.catalogue.find("workflow.get")
    who, times = principal(1), []
    for _ in range(calls):
        arguments: dict[str, Any] = {"workflow_id": "hello"}
        request = Request(
            operation="workflow.get", arguments=arguments, principal=who, surface="rest", request_id="bench"
        )
        began = time.perf_counter()
        context = Context(
            services=gate.services, principal=who, request=request, capability=capability, call=CallRecord()
        )
        await capability.handler(context, capability.convert(arguments))
        times.append((time.perf_counter() - began) * 1_000)
    return times


async def list_times(gate: Gate, tools: int, rounds: int) -> tuple[float, float]:
    """The medians of a cold and of a warm list of so many tools, in milliseconds."""
    found = (await gate.exposed.of("default")).tools["workflow:tool"]
    listed = [_named(found, number) for number in range(tools)]
    standpoint = Standpoint(surface="mcp", remote="198.51.100.7")
    cold: list[float] = []
    warm: list[float] = []
    for number in range(rounds):
        who = replace(principal(number), id=f"key:{tools}-{number}")
        for times in (cold, warm):
            began = time.perf_counter()
            allowed = await gate.lists.allowed(who, listed, standpoint, ("bench", tools))
            times.append((time.perf_counter() - began) * 1_000)
            if len(allowed) != tools:
                raise ValueError(f"{len(allowed)} of {tools} tools are listed")
    return statistics.median(cold), statistics.median(warm)


def _named(tool: Capability, number: int) -> Capability:
    metadata = {**tool.metadata, "workflow": f"tool_{number}", "tool": f"tool_{number}"}
    return replace(tool, name=f"workflow:tool_{number}", metadata=metadata)


async def write_costs(gate: Gate, writes: int) -> tuple[float, float]:
    """How many changes with an audit record are stored in a second, and the processor time of each in microseconds."""
    body = {"schema": {"type": "object"}}
    numbers = iter(range(writes))

    async def write() -> None:
        for number in numbers:
            await _answered(gate, "schema.create", {"id": f"schema-{number}", **body})

    began, used = time.perf_counter(), time.process_time()
    await asyncio.gather(*(write() for _ in range(_WRITERS)))
    return writes / (time.perf_counter() - began), (time.process_time() - used) * 1e6 / writes


def percentile(times: list[float], share: float) -> float:
    """The time within which this share of the calls ended."""
    return sorted(times)[min(len(times) - 1, int(len(times) * share))]


async def measure(*, quick: bool) -> dict[str, float]:
    """All figures."""
    calls, rounds, writes = (300, 10, 300) if quick else (3_000, 40, 4_000)
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for policies in (0, 50, 500):
            async with opened(folder, policies) as gate:
                await call_times(gate, 50)
                times = await call_times(gate, calls)
                suffix = {0: "scopes_only_", 50: "", 500: "500_"}[policies]
                figures[f"gate_{suffix}p50_ms"] = percentile(times, 0.5)
                figures[f"gate_{suffix}p99_ms"] = percentile(times, 0.99)
                if policies == 0:
                    figures["no_gate_p50_ms"] = percentile(await handler_times(gate, calls), 0.5)
                    continue
                for tools in (200, 1_000):
                    cold, warm = await list_times(gate, tools, rounds)
                    figures[f"list_{suffix}{tools}_cold_ms"], figures[f"list_{suffix}{tools}_warm_ms"] = cold, warm
                if policies == 50:
                    rate, cpu_us = await write_costs(gate, writes)
                    figures["audited_writes_per_second"], figures["audited_write_cpu_us"] = rate, cpu_us
    return {name: round(value, 4) for name, value in figures.items()}


def main() -> int:
    """Measure, and print the figures as one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="few calls: to see that it works")
    chosen = parser.parse_args()
    figures = asyncio.run(measure(quick=chosen.quick))
    missed = missed_targets(figures, _TARGETS)
    for text in missed:
        sys.stderr.write(f"missed: {text}\n")
    sys.stdout.write(json.dumps({"benchmark": "gate", **figures, "ok": not missed}) + "\n")
    return 0 if not missed else 1


if __name__ == "__main__":
    sys.exit(main())
