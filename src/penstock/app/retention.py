"""Retention: deletes expired data: ended runs, deliveries, sessions, audit records, answers and deleted graphs.

Above it: `gate` calls it regularly while a gate is open. Below it: the gate, the platform store.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from penstock.base import limits
from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject, JsonValue
from penstock.governance.audit.redactions import REDACT_AUDIT
from penstock.governance.audit.trails import FORGET_AUDIT
from penstock.governance.quotas import day_of
from penstock.operations.audit.holds import audit_holds
from penstock.operations.gate.context import Services
from penstock.operations.gate.internal_callers import internal_call, system_principal
from penstock.operations.gate.pipeline import Gate
from penstock.operations.keys.console_sessions import FORGET_SESSIONS
from penstock.operations.permissions.console_sessions import SESSION_KIND, record_of
from penstock.operations.registries.session_runs import SESSION_LABEL, SESSION_OWNER_LABEL
from penstock.operations.registries.sessions import FORGET_SESSION
from penstock.operations.system.health import RETENTION_CHECK
from penstock.operations.system.retention import FORGET_RUNS
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.platform import AuditQuery
from penstock.runtime.tables.audit.records import list_audit, list_audit_tenants
from penstock.runtime.tables.call_records import forget_calls
from penstock.runtime.tables.deliveries import forget_deliveries
from penstock.runtime.tables.memory import forget_memory
from penstock.runtime.tables.resources import list_all_resources
from penstock.runtime.tables.usage import forget_usage

__all__ = [
    "Retention",
    "RetentionStatus",
    "Sweeps",
    "apply_retention",
    "end_graph_loads",
    "forget_console_sessions",
    "forget_old_calls",
    "forget_old_memory",
    "renew_graph_loads",
    "tidy_graphs",
]

_LOGGER = logging.getLogger("penstock.gate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long things are kept; None means forever."""

    runs_ms: int | None = None
    """After the end of a run."""
    audit_ms: int | None = None
    deliveries_ms: int | None = limits.DELIVERY_RETENTION_MS


class RetentionStatus:
    """What could not be deleted in time, for the health of a server."""

    def __init__(self, set_aside: Callable[[], Mapping[str, Mapping[str, str]]] = dict) -> None:
        self._set_aside = set_aside
        self.failures: dict[str, str] = {}
        """The last error of each kind that could not be deleted at all."""

    def health(self) -> str:
        """Return `ok`, or what was set aside and what fails."""
        told = [f"{kind} cannot be deleted: {error}" for kind, error in sorted(self.failures.items())]
        for kind, rows in sorted(self._set_aside().items()):
            named = [f"{name} ({reason})" for name, reason in list(rows.items())[: limits.RETENTION_NAMED_MAX]]
            more = f" and {len(rows) - len(named)} more" if len(rows) > len(named) else ""
            told.append(f"{kind} set aside, because they cannot be deleted: {', '.join(named)}{more}")
        return "; ".join(told) or "ok"

    def with_check(self, checks: Callable[[], Awaitable[dict[str, str]]]) -> Callable[[], Awaitable[dict[str, str]]]:
        """Return the checks of `system.health`, with this one."""

        async def look() -> dict[str, str]:
            return {**await checks(), RETENTION_CHECK: self.health()}

        return look


class Sweeps:
    """Deletes what is past its time, each kind by itself: a kind that fails, or takes long, holds up no other."""

    def __init__(self, gate: Gate, retention: Retention, status: RetentionStatus | None = None) -> None:
        self._gate = gate
        self._retention = retention
        self._status = status or RetentionStatus()
        self._kinds: dict[str, Callable[[], Awaitable[None]]] = {
            "answers": self.sweep_answers,
            "deliveries": self.sweep_deliveries,
            "runs": self.sweep_runs,
            "audit": self.sweep_audit,
            "sessions": lambda: forget_console_sessions(gate),
            "graphs": lambda: tidy_graphs(gate.services),
            "memory": lambda: forget_old_memory(gate.services),
            "usage": self.sweep_usage,
        }

    async def run(self) -> None:
        """Delete each kind again and again, until it is cancelled."""
        tasks = [asyncio.create_task(self._keep_sweeping(kind)) for kind in self._kinds]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def sweep_all(self) -> None:
        """Delete every kind once."""
        for kind in self._kinds:
            await self._sweep(kind)

    async def _keep_sweeping(self, kind: str) -> None:
        while True:
            await asyncio.sleep(limits.RETENTION_LOOK_SECONDS)
            await self._sweep(kind)

    async def _sweep(self, kind: str) -> None:
        try:
            await self._kinds[kind]()
        except PenstockError as error:
            if kind not in self._status.failures:
                _LOGGER.warning("expired %s cannot be deleted: %s; trying again", kind, error)
            self._status.failures[kind] = str(error)
        else:
            self._status.failures.pop(kind, None)

    async def sweep_answers(self) -> None:
        """Delete expired answers to idempotent calls."""
        services = self._gate.services
        await forget_old_calls(services.platform, services.clock.now_ms())

    async def sweep_deliveries(self) -> None:
        """Delete deliveries that ended long ago."""
        if self._retention.deliveries_ms is not None:
            services = self._gate.services
            before = services.clock.now_ms() - self._retention.deliveries_ms
            await _in_pieces(lambda size: forget_deliveries(services.platform, before=before, limit=size))

    async def sweep_runs(self) -> None:
        """Delete runs that ended long ago."""
        if self._retention.runs_ms is not None:
            ended_before = self._gate.services.clock.now_ms() - self._retention.runs_ms
            await _in_pieces(lambda size: _forget_runs(self._gate, ended_before, size))

    async def sweep_audit(self) -> None:
        """Delete old audit records; a tenant whose trail fails holds up no other."""
        if self._retention.audit_ms is None:
            return
        platform = self._gate.services.platform
        before, failed = self._gate.services.clock.now_ms() - self._retention.audit_ms, None
        for tenant in await list_audit_tenants(platform):
            try:
                await _forget_audit(self._gate, tenant, before)
            except PenstockError as error:
                failed = error
        if failed is not None:
            raise failed

    async def sweep_usage(self) -> None:
        """Delete the counts of days that no quota looks at."""
        services = self._gate.services
        now = services.clock.now_ms()
        await forget_usage(services.platform, before_day=day_of(now) - limits.USAGE_DAYS_KEPT, now=now)


async def apply_retention(gate: Gate, retention: Retention) -> None:
    """Delete what is past its time, batch by batch, so that others can write in between.

    Runs and audit records are deleted by calls of the gate, one for each batch of a tenant. Ended deliveries are only a
    log of attempts, and expire without a call, as the answers to idempotent calls do.
    """
    sweeps = Sweeps(gate, retention)
    for forget in (sweeps.sweep_deliveries, sweeps.sweep_runs, sweeps.sweep_audit):
        await forget()


async def _forget_runs(gate: Gate, before: int, size: int) -> int:
    """Delete a batch of runs that ended before a given time. Returns how many it tried to delete."""
    ended = await gate.services.store.ended_runs(before=before, limit=size)
    for tenant in dict.fromkeys(row.tenant for row in ended):
        retention = system_principal("retention", "execution:delete", tenant=tenant)
        run_ids: list[JsonValue] = [row.run_id for row in ended if row.tenant == tenant]
        await internal_call(gate, retention, FORGET_RUNS, {"run_ids": run_ids})
        # A session is kept as long as its last run.
        of_runs = [row.labels for row in ended if row.tenant == tenant and SESSION_OWNER_LABEL in row.labels]
        for session_id, owner in dict.fromkeys(
            (labels[SESSION_LABEL], labels[SESSION_OWNER_LABEL]) for labels in of_runs
        ):
            named: JsonObject = {"session_id": session_id, "owner": owner}
            await internal_call(gate, retention, FORGET_SESSION, named)
    return len(ended)


async def forget_old_calls(platform: Database, now_ms: int) -> int:
    """Delete expired answers to idempotent calls, as fast as they arrive. Returns how many.

    The size of each batch is adapted to how long the earlier batches took.
    """
    return await _in_pieces(lambda size: forget_calls(platform, now=now_ms, limit=size))


async def forget_console_sessions(gate: Gate) -> None:
    """Delete sessions of the console that are over, with the tokens that were stored for them."""
    now, over = gate.services.clock.now_ms(), dict[str, list[JsonValue]]()
    for row in await list_all_resources(gate.services.platform, SESSION_KIND):
        record = record_of(row.body)
        if record is None or record.until_ms <= now:
            over.setdefault(row.tenant, []).append(row.resource_id)
    for tenant, session_ids in over.items():
        retention = system_principal("retention", "key:write", tenant=tenant)
        for first in range(0, len(session_ids), limits.CLAIM_BATCH_MAX):
            at_once: list[JsonValue] = session_ids[first : first + limits.CLAIM_BATCH_MAX]
            await internal_call(gate, retention, FORGET_SESSIONS, {"session_ids": at_once})


async def forget_old_memory(services: Services) -> None:
    """Erase expired memory entries, and what earlier deletions left to be overwritten."""
    most = limits.MEMORY_FORGOTTEN_AT_ONCE_MAX
    while True:
        if await forget_memory(services.platform, now=services.clock.now_ms(), limit=most) < most:
            return
        await asyncio.sleep(limits.RETENTION_PAUSE_SECONDS)


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
    old = (await list_audit(platform, replace(some, until=before, limit=2))).records
    if len(old) < 2:  # noqa: PLR2004  # more than one
        return
    retention, end = system_principal("retention", "audit:delete", tenant=tenant), old[0].seq + 1
    reached = 0
    while True:
        # What was set aside stays, as what is held does: the next batch begins after the last one.
        remaining = replace(some, after_seq=reached, before_seq=end, oldest_first=True, limit=1)
        oldest = (await list_audit(platform, remaining)).records
        if not oldest:
            return
        reached = min(oldest[0].seq + limits.AUDIT_REMOVED_AT_ONCE_MAX, end) - 1
        await internal_call(gate, retention, FORGET_AUDIT, {"before_seq": reached + 1})
        if reached + 1 == end:
            return
        await _pause(is_behind=True)


async def tidy_graphs(services: Services) -> None:
    """Remove rows of deleted graphs, some at a time."""
    store = services.graphs
    if store is None:
        return

    async def sweep(size: int) -> int:
        return (await store.sweep(limit=size)).rows

    await _in_pieces(sweep, size_max=limits.GRAPH_SWEEP_ROWS_MAX)


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


async def _in_pieces(
    forget: Callable[[int], Awaitable[int]], *, size_max: int = limits.RETENTION_BATCH_CALLS_MAX
) -> int:
    """Delete until nothing is left, in batches whose size is adapted to how long the earlier ones took.

    Returns how much was deleted. A batch that is not full was the last one.
    """
    forgotten, size = 0, limits.CLAIM_BATCH_MAX
    while True:
        began = time.perf_counter()
        count = await forget(size)
        forgotten += count
        if not count:
            return forgotten
        took = time.perf_counter() - began
        is_behind = count >= size
        size = min(_next_size(size, took * 1000), size_max)
        await _pause(is_behind=is_behind)


async def _pause(*, is_behind: bool) -> None:
    """Leave the store to others between two batches.

    If much is left, the pause is short: deleting has to keep up with whatever fills the file. Others still write with
    every batch, because a batch is as large as fits into a short transaction.
    """
    await asyncio.sleep(limits.RETENTION_PAUSE_BEHIND_SECONDS if is_behind else limits.RETENTION_PAUSE_SECONDS)
