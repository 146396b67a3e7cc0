"""The limits of calls and keys, as the operator configured them.

Above it: `context`, `rates`, and `app`, which reads them from the settings. Below it: `base.limits` with the defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.base import limits
from penstock.operations.gate.quotas import QuotaChoices

__all__ = ["CapabilityLimit", "GateLimits", "MemoryLimits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CapabilityLimit:
    """How many calls of one capability one key, and all keys of a tenant, may make in a minute; None: any number."""

    per_minute: int | None = None
    tenant_per_minute: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLimits:
    """How much is remembered and for how long, as the operator configured it. A time of None means until deleted."""

    value_bytes_max: int = limits.MEMORY_VALUE_BYTES_MAX
    entries_max: int = limits.MEMORY_ENTRIES_MAX
    """Entries of one space: a session, a principal or a tenant."""
    bytes_max: int = limits.MEMORY_BYTES_MAX
    """Bytes of one space."""
    tenant_bytes_max: int = limits.MEMORY_TENANT_BYTES_MAX
    """Bytes of all spaces of a tenant."""
    session_ttl_seconds: int | None = limits.MEMORY_SESSION_TTL_SECONDS_DEFAULT
    ttl_default_seconds: int | None = None
    """For entries of principals and tenants that name no time."""
    ttl_max_seconds: int | None = None
    """What entries may name at most; one that names more, or no end, gets this."""

    def ttl_seconds(self, scope: str, wanted: int | None) -> int | None:
        """Return how long an entry is kept; None until it is deleted."""
        default = self.session_ttl_seconds if scope == "session" else self.ttl_default_seconds
        chosen = default if wanted is None else wanted
        bounds = [found for found in (chosen, self.ttl_max_seconds) if found is not None]
        return min(bounds, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class GateLimits:
    """Limits of a key, unless they say otherwise, as the operator configured them."""

    read_per_minute: int = limits.READ_CALLS_PER_MINUTE
    write_per_minute: int = limits.WRITE_CALLS_PER_MINUTE
    admin_per_minute: int = limits.ADMIN_CALLS_PER_MINUTE
    concurrent_per_key: int = limits.CONCURRENT_CALLS_PER_KEY
    tenant_read_per_minute: int | None = None
    tenant_write_per_minute: int | None = None
    tenant_admin_per_minute: int | None = None
    capabilities: Mapping[str, CapabilityLimit] = field(default_factory=dict)
    """Limits of single capabilities, by name."""
    unauthenticated_per_minute: int = limits.UNAUTHENTICATED_PER_MINUTE
    failed_logins_per_minute: int = limits.FAILED_LOGINS_PER_MINUTE
    quotas: QuotaChoices = field(default_factory=QuotaChoices)
    memory: MemoryLimits = field(default_factory=MemoryLimits)
    """What `memory.put` keeps."""
    idempotency_ttl_ms: int = limits.IDEMPOTENCY_TTL_MS
    sync_wait_seconds: float = limits.SYNC_WAIT_SECONDS
    sync_wait_max_seconds: float = limits.SYNC_WAIT_SECONDS_MAX
    stream_heartbeat_seconds: float = limits.STREAM_HEARTBEAT_SECONDS
    stream_retry_ms: int = limits.STREAM_RETRY_MS
    streams_max: int = limits.STREAMS_MAX
    streams_per_key: int = limits.STREAMS_PER_KEY
    key_expiry_ms: int | None = None
    """How long a new key is valid by default; None: until it is revoked."""
    standing_authority_ms: int = limits.STANDING_AUTHORITY_MS
    """How long what was made with a token (a key, a schedule, a webhook) acts with its authority."""
