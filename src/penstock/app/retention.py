"""Retention: deletes what is past its time: ended runs, deliveries and sessions, audit records, answers, gone graphs.

Above it: `gate` calls it regularly while a gate is open. Below it: the gate, the platform store.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from msgspec.structs import replace

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue
from penstock.governance.audit.redactions import REDACT_AUDIT
from penstock.governance.audit.trails import FORGET_AUDIT
from penstock.operations.audit.holds import audit_holds
from penstock.operations.audit.removal import RemovedCount
from penstock.operations.gate.context import Services
from penstock.operations.gate.internal_callers import internal_call, system_principal
from penstock.operations.gate.pipeline import Gate
from penstock.operations.keys.console_sessions import FORGET_SESSIONS
from penstock.operations.permissions.console_sessions import SESSION_KIND, record_of
from penstock.operations.registries.session_runs import SESSION_LABEL, SESSION_OWNER_LABEL
from penstock.operations.registries.sessions import FORGET_SESSION
from penstock.operations.system.retention import FORGET_RUNS, Forgotten
from penstock.runtime.ports.platform import AuditQuery, PlatformStore

__all__ = [
    "Retention",
    "apply_retention",
    "end_graph_loads",
    "forget_calls",
    "forget_console_sessions",
    "forget_memory",
    "renew_graph_loads",
    "tidy_graphs",
]

# The rest follows a minute later.
_PIECES_MAX = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long things are kept; None means forever."""

    runs_ms: int | None = None
    """After the end of a run."""
    audit_ms: int | None = None
    deliveries_ms: int | None = limits.DELIVERY_RETENTION_MS


async def apply_retention(gate: Gate, retention: Retention) -> None:
    """Delete what is past its time, batch by batch, so that others can write in between.

    Runs and audit records are deleted by calls of the gate, one for each batch of a tenant. Ended deliveries are only a
    log of attempts, and expire without a call, as the answers to idempotent calls do.
    """
    services = gate.services
    platform, now = services.platform, services.clock.now_ms()
    if retention.deliveries_ms is not None:
        before = now - retention.deliveries_ms
        await _in_pieces(lambda: platform.forget_deliveries(before=before, limit=limits.CLAIM_BATCH_MAX))
    if retention.runs_ms is not None:
        ended_before = now - retention.runs_ms
        await _in_pieces(lambda: _forget_runs(gate, ended_before))
    if retention.audit_ms is not None:
        for tenant in await platform.audit_tenants():
            await _forget_audit(gate, tenant, now - retention.audit_ms)


async def _forget_runs(gate: Gate, before: int) -> int:
    """Delete a batch of runs that ended before a given time. Returns how many."""
    ended = await gate.services.store.ended_runs(before=before, limit=limits.CLAIM_BATCH_MAX)
    count = 0
    for tenant in dict.fromkeys(row.tenant for row in ended):
        retention = system_principal("retention", "execution:delete", tenant=tenant)
        run_ids: list[JsonValue] = [row.run_id for row in ended if row.tenant == tenant]
        forgotten: Forgotten = await internal_call(gate, retention, FORGET_RUNS, {"run_ids": run_ids})
        count += forgotten.count
        # A session is kept as long as its last run.
        of_runs = [row.labels for row in ended if row.tenant == tenant and SESSION_OWNER_LABEL in row.labels]
        for session_id, owner in dict.fromkeys(
            (labels[SESSION_LABEL], labels[SESSION_OWNER_LABEL]) for labels in of_runs
        ):
            named: JsonObject = {"session_id": session_id, "owner": owner}
            await internal_call(gate, retention, FORGET_SESSION, named)
    return count


async def forget_calls(platform: PlatformStore, now_ms: int) -> int:
    """Delete expired answers to idempotent calls, as fast as they arrive. Returns how many.

    The size of each batch is adapted to how long the earlier batches took.
    """
    forgotten, size = 0, limits.CLAIM_BATCH_MAX
    ends_at = time.perf_counter() + limits.RETENTION_ROUND_SECONDS
    while (began := time.perf_counter()) < ends_at:
        count = await platform.forget_calls(now=now_ms, limit=size)
        forgotten += count
        if count < size:
            break
        size = _next_size(size, (time.perf_counter() - began) * 1000)
        await asyncio.sleep(limits.RETENTION_PAUSE_SECONDS)
    return forgotten


async def forget_console_sessions(gate: Gate) -> None:
    """Delete sessions of the console that are over, with the tokens that were stored for them."""
    now, over = gate.services.clock.now_ms(), dict[str, list[JsonValue]]()
    for row in await gate.services.platform.all_resources(SESSION_KIND):
        record = record_of(row.body)
        if record is None or record.until_ms <= now:
            over.setdefault(row.tenant, []).append(row.resource_id)
    for tenant, session_ids in over.items():
        retention = system_principal("retention", "key:write", tenant=tenant)
        at_once: list[JsonValue] = session_ids[: limits.CLAIM_BATCH_MAX]
        await internal_call(gate, retention, FORGET_SESSIONS, {"session_ids": at_once})


async def forget_memory(services: Services) -> None:
    """Erase what was remembered for a time that is over, and what deletions left to be overwritten."""
    most = limits.MEMORY_FORGOTTEN_AT_ONCE_MAX
    for _ in range(_PIECES_MAX):
        if services.memory is None or await services.memory.forget(now=services.clock.now_ms(), limit=most) < most:
            return


def _next_size(size: int, took_ms: float) -> int:
    """The next batch size: at most twice the last one, and no more than fits the time limit of a batch."""
    fitting = int(size * min(2.0, limits.RETENTION_BATCH_MS / max(took_ms, 0.001)))
    return max(limits.CLAIM_BATCH_MAX, min(fitting, limits.RETENTION_BATCH_CALLS_MAX))


async def _forget_audit(gate: Gate, tenant: str, before: int) -> None:
    """Delete the records of a tenant up to the last one that is old enough and not held, a batch with each call.

    A single old record is kept until there are more. The newest record of a chain stays in any case, and deleting
    records one by one, each with a record of the deletion, would never end. Records of redactions may have to stay
    together with what they name, so they are deleted with others and are no reason to delete anything.
    """
    platform = gate.services.platform
    holds = await audit_holds(platform, tenant)
    some = AuditQuery(tenant=tenant, not_held_by=holds, not_operation=REDACT_AUDIT)
    old = (await platform.audit(replace(some, until=before, limit=2))).records
    if len(old) < 2:  # noqa: PLR2004  # more than one
        return
    retention, end = system_principal("retention", "audit:delete", tenant=tenant), old[0].seq + 1
    for _ in range(_PIECES_MAX):
        remaining = replace(some, before_seq=end, oldest_first=True, limit=1)
        oldest = (await platform.audit(remaining)).records
        if not oldest:
            return
        before_seq = min(oldest[0].seq + limits.AUDIT_REMOVED_AT_ONCE_MAX, end)
        forgotten: RemovedCount = await internal_call(gate, retention, FORGET_AUDIT, {"before_seq": before_seq})
        if not forgotten.count or before_seq == end:
            return
        await asyncio.sleep(limits.RETENTION_PAUSE_SECONDS)


async def tidy_graphs(services: Services) -> None:
    """Remove rows of deleted graphs, some at a time."""
    store = services.graphs
    if store is None:
        return

    async def sweep() -> int:
        return (await store.sweep(limit=limits.GRAPH_SWEEP_ROWS_MAX)).rows

    await _in_pieces(sweep)


async def renew_graph_loads(services: Services) -> None:
    """Renew the leases of the loads that this process is writing."""
    if services.graphs is not None:
        await services.graphs.keep_loads(at=services.clock.now_ms())


async def end_graph_loads(services: Services) -> None:
    """End loads of processes and callers that are gone: until then, their branches take no other writes.

    To remove what they wrote may take long, so leases are not renewed in between but beside it.
    """
    if services.graphs is not None:
        await services.graphs.abandon_loads(before=services.clock.now_ms() - limits.GRAPH_LOAD_LEASE_MS)


async def _in_pieces(forget: Callable[[], Awaitable[int]]) -> None:
    """Repeat until nothing is left, or until the maximum number of batches."""
    for _ in range(_PIECES_MAX):
        if not await forget():
            return
        await asyncio.sleep(limits.RETENTION_PAUSE_SECONDS)
