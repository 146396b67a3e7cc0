"""Settings of quotas: what every tenant, and every key, may use at most, unless it is changed for one of them.

Above it: `model`. Below it: `composite_types`. There is no quota unless one is set.
"""

# No `from __future__ import annotations`: the annotations are the declarations, and are read at run time.
from typing import Annotated

from msgspec import Struct

from penstock.app.settings.composite_types import Field

__all__ = ["KeyQuotaSettings", "QuotaSettings", "TenantQuotaSettings"]


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
    """What tenants and keys may use at most. `quota.set` changes it for single ones."""

    tenant: TenantQuotaSettings = TenantQuotaSettings()
    key: KeyQuotaSettings = KeyQuotaSettings()
