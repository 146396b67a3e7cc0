"""Settings of quotas and memory: what tenants and keys may use, and how much is remembered for how long.

Above it: `model`. Below it: `composite_types`. There is no quota unless one is set.
"""

# No `from __future__ import annotations`: the annotations are the declarations, and are read at run time.
from datetime import timedelta
from typing import Annotated

from msgspec import Struct

from penstock.app.settings.composite_types import Field
from penstock.base import limits

__all__ = ["KeyQuotaSettings", "MemorySettings", "QuotaSettings", "TenantQuotaSettings"]


class TenantQuotaSettings(Struct, frozen=True, kw_only=True):
    """What a tenant may use; days begin at midnight UTC."""

    runs_at_once: Annotated[
        int | None, Field("Runs that have not ended, children included; null means any number.", minimum=1)
    ] = None
    runs_per_day: Annotated[int | None, Field("Runs that are started in a day; null means any number.", minimum=1)] = (
        None
    )
    tokens_per_day: Annotated[
        int | None, Field("Tokens of language models in a day, in and out; null means any number.", minimum=1)
    ] = None
    cost_per_day: Annotated[
        float | None,
        Field("What language models may cost in a day, in US dollars, where prices are known.", minimum=0.000001),
    ] = None
    storage_bytes: Annotated[
        int | None, Field("Bytes of histories, documents and registered things; null means any number.", minimum=1)
    ] = None


class KeyQuotaSettings(Struct, frozen=True, kw_only=True):
    """What an API key may use, with the schedules and webhooks of its holder."""

    runs_at_once: Annotated[int | None, Field("Runs that have not ended; null means any number.", minimum=1)] = None
    runs_per_day: Annotated[int | None, Field("Runs that are started in a day; null means any number.", minimum=1)] = (
        None
    )
    tokens_per_day: Annotated[
        int | None, Field("Tokens of language models in a day, in and out; null means any number.", minimum=1)
    ] = None
    cost_per_day: Annotated[
        float | None,
        Field("What language models may cost in a day, in US dollars, where prices are known.", minimum=0.000001),
    ] = None


class QuotaSettings(Struct, frozen=True, kw_only=True):
    """What tenants and keys may use. `quota.set` changes it for individual ones."""

    tenant: TenantQuotaSettings = TenantQuotaSettings()
    key: KeyQuotaSettings = KeyQuotaSettings()


class MemorySettings(Struct, frozen=True, kw_only=True):
    """Limits of memory (`memory.put`). A space belongs to a session, a principal or a tenant."""

    value_bytes: Annotated[int, Field("Bytes of one value.", minimum=1)] = limits.MEMORY_VALUE_BYTES_MAX
    entries: Annotated[int, Field("Entries of one space.", minimum=1)] = limits.MEMORY_ENTRIES_MAX
    space_bytes: Annotated[int, Field("Bytes of one space.", minimum=1)] = limits.MEMORY_BYTES_MAX
    tenant_bytes: Annotated[int, Field("Bytes of all spaces of a tenant.", minimum=1)] = limits.MEMORY_TENANT_BYTES_MAX
    session_ttl: Annotated[
        timedelta | None,
        Field("How long to keep entries of sessions that set no time; null means until they are deleted.", minimum=1),
    ] = timedelta(seconds=limits.MEMORY_SESSION_TTL_SECONDS_DEFAULT)
    default_ttl: Annotated[
        timedelta | None,
        Field(
            "How long to keep entries of principals and tenants that set no time; null means until they are deleted.",
            minimum=1,
        ),
    ] = None
    max_ttl: Annotated[
        timedelta | None, Field("The longest time for any entry, also for entries without an end.", minimum=1)
    ] = None
