"""The limits of the gate from the settings, for a server and for `penstock mcp`, which starts without one.

Above it: `server`, the command line. Below it: the settings.
"""

from __future__ import annotations

from datetime import timedelta

from penstock.app.settings.model import Settings
from penstock.governance.quotas import QuotaLimits
from penstock.operations.gate.chosen_limits import MemoryLimits
from penstock.operations.gate.context import CapabilityLimit, GateLimits
from penstock.operations.gate.quotas import QuotaChoices

__all__ = ["gate_limits", "milliseconds"]


def gate_limits(settings: Settings) -> GateLimits:
    """The limits of the settings."""
    server, per_key = settings.server, settings.limits
    return GateLimits(
        read_per_minute=per_key.read_per_minute,
        write_per_minute=per_key.write_per_minute,
        admin_per_minute=per_key.admin_per_minute,
        concurrent_per_key=per_key.concurrent_per_key,
        quotas=_quota_choices(settings),
        memory=_memory_limits(settings),
        unauthenticated_per_minute=per_key.unauthenticated_per_minute,
        failed_logins_per_minute=per_key.failed_logins_per_minute,
        tenant_read_per_minute=per_key.tenant.read_per_minute,
        tenant_write_per_minute=per_key.tenant.write_per_minute,
        tenant_admin_per_minute=per_key.tenant.admin_per_minute,
        capabilities={
            name: CapabilityLimit(per_minute=of_one.per_minute, tenant_per_minute=of_one.tenant_per_minute)
            for name, of_one in per_key.capabilities.items()
        },
        idempotency_ttl_ms=int(settings.idempotency.ttl.total_seconds() * 1000),
        sync_wait_seconds=server.sync_wait_seconds,
        sync_wait_max_seconds=server.sync_wait_max_seconds,
        stream_heartbeat_seconds=server.streams.heartbeat_seconds,
        stream_retry_ms=int(server.streams.retry_seconds * 1000),
        streams_max=server.streams.max,
        streams_per_key=server.streams.per_key,
        key_expiry_ms=milliseconds(settings.auth.keys.default_expiry),
        standing_authority_ms=round(settings.auth.oauth.standing_authority.total_seconds() * 1000),
    )


def milliseconds(duration: timedelta | None) -> int | None:
    """A duration in milliseconds; None stays None."""
    return None if duration is None else int(duration.total_seconds() * 1000)


def _quota_choices(settings: Settings) -> QuotaChoices:
    of_tenant, of_key = settings.quotas.tenant, settings.quotas.key
    return QuotaChoices(
        tenant=QuotaLimits(
            runs_at_once=of_tenant.runs_at_once,
            runs_per_day=of_tenant.runs_per_day,
            tokens_per_day=of_tenant.tokens_per_day,
            cost_per_day=_micro_dollars(of_tenant.cost_per_day),
            storage_bytes=of_tenant.storage_bytes,
        ),
        key=QuotaLimits(
            runs_at_once=of_key.runs_at_once,
            runs_per_day=of_key.runs_per_day,
            tokens_per_day=of_key.tokens_per_day,
            cost_per_day=_micro_dollars(of_key.cost_per_day),
        ),
    )


def _memory_limits(settings: Settings) -> MemoryLimits:
    chosen = settings.memory
    return MemoryLimits(
        value_bytes_max=chosen.value_bytes,
        entries_max=chosen.entries,
        bytes_max=chosen.space_bytes,
        tenant_bytes_max=chosen.tenant_bytes,
        session_ttl_seconds=_whole_seconds(chosen.session_ttl),
        ttl_default_seconds=_whole_seconds(chosen.default_ttl),
        ttl_max_seconds=_whole_seconds(chosen.max_ttl),
    )


def _whole_seconds(time: timedelta | None) -> int | None:
    return None if time is None else round(time.total_seconds())


def _micro_dollars(dollars: float | None) -> int | None:
    return None if dollars is None else round(dollars * 1_000_000)
