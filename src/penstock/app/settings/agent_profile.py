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
        bool,
        Field(
            "Whether to serve the agent profile, where agents list, preview, propose and execute actions and "
            "people govern them."
        ),
    ] = False
    fixtures: Annotated[
        bool,
        Field("Whether every tenant has a demo ledger for compatible clients and `penstock server verify`."),
    ] = False
