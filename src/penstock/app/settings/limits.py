"""Settings of rate limits: for keys, tenants, capabilities, and callers without credentials.

Above it: `model`. Below it: `composite_types`. The numbers have their reasons in `base.limits.gate`.
"""

# No `from __future__ import annotations`: the annotations are the declarations, and are read at run time.
from collections.abc import Mapping
from typing import Annotated

from msgspec import Struct

from penstock.app.settings.composite_types import Field
from penstock.app.settings.formats import CAPABILITY
from penstock.base import limits

__all__ = ["CapabilityLimitSettings", "LimitSettings", "TenantLimitSettings"]


class TenantLimitSettings(Struct, frozen=True, kw_only=True):
    """Rate limits for all API keys of one tenant together. Unless set, only the limits of each key apply."""

    read_per_minute: Annotated[
        int | None, Field("Calls a minute that only read; null means any number.", minimum=1)
    ] = None
    write_per_minute: Annotated[
        int | None, Field("Calls a minute that change something; null means any number.", minimum=1)
    ] = None
    admin_per_minute: Annotated[
        int | None, Field("Calls a minute about keys, policies and exports; null means any number.", minimum=1)
    ] = None


class CapabilityLimitSettings(Struct, frozen=True, kw_only=True):
    """How often one operation or tool may be called."""

    per_minute: Annotated[int | None, Field("Calls a minute with one API key; null means any number.", minimum=1)] = (
        None
    )
    tenant_per_minute: Annotated[
        int | None, Field("Calls a minute with all API keys of a tenant; null means any number.", minimum=1)
    ] = None


class LimitSettings(Struct, frozen=True, kw_only=True):
    """Rate limits for one API key, and for callers without one."""

    read_per_minute: Annotated[int, Field("Calls a minute that only read.", minimum=1)] = limits.READ_CALLS_PER_MINUTE
    write_per_minute: Annotated[int, Field("Calls a minute that change something.", minimum=1)] = (
        limits.WRITE_CALLS_PER_MINUTE
    )
    admin_per_minute: Annotated[int, Field("Calls a minute about keys, policies and exports.", minimum=1)] = (
        limits.ADMIN_CALLS_PER_MINUTE
    )
    concurrent_per_key: Annotated[int, Field("Concurrent calls.", minimum=1)] = limits.CONCURRENT_CALLS_PER_KEY
    unauthenticated_per_minute: Annotated[
        int, Field("Requests a minute without credentials from one address.", minimum=1)
    ] = limits.UNAUTHENTICATED_PER_MINUTE
    failed_logins_per_minute: Annotated[
        int,
        Field(
            "Wrong credentials a minute from one address; more are refused for a while. Valid credentials always work.",
            minimum=1,
        ),
    ] = limits.FAILED_LOGINS_PER_MINUTE
    tenant: TenantLimitSettings = TenantLimitSettings()
    capabilities: Annotated[
        Mapping[str, CapabilityLimitSettings],
        Field(
            "Limits of single operations and tools, by name: `workflow.execute`, `workflow:refund_order`.",
            format=CAPABILITY,
        ),
    ] = {}
