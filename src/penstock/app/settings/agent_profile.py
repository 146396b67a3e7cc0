"""Settings of the agent profile on HTTP.

Above it: `model`, which has them under `server`. Below it: `composite_types`.
"""

# No `from __future__ import annotations`: the annotations are the declarations, and are read at run time.
from typing import Annotated

from msgspec import Struct

from penstock.app.settings.composite_types import Field

__all__ = ["AgentProfileSettings"]


class AgentProfileSettings(Struct, frozen=True, kw_only=True):
    """The agent profile on HTTP, under `/api/agent/v1` and `/api/agent-admin/v1`."""

    enabled: Annotated[
        bool, Field("Whether agents may list, preview, propose and execute actions there, and people govern them.")
    ] = False
    fixtures: Annotated[
        bool,
        Field(
            "Whether there is a demo ledger, which compatible clients and `penstock verify` work on; every tenant has "
            "one then."
        ),
    ] = False
