"""The agent profile of a server: its routes on both planes. `app.serving` adds it to the other surfaces, or not."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.routing import BaseRoute, Route

from penstock.agent_profile.admin_plane import ADMIN_ACTIONS
from penstock.agent_profile.agent_plane import AGENT_ACTIONS, AGENT_PATH, LEDGER_ACTIONS
from penstock.agent_profile.endpoint import Endpoint, Unknown
from penstock.operations.gate.pipeline import Gate
from penstock.rest.endpoints import ConcurrencyLimit

__all__ = ["ADMIN_PATH", "AgentProfileOptions", "agent_profile_routes"]

ADMIN_PATH = "/api/agent-admin/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentProfileOptions:
    """The operator's options for the agent profile."""

    enabled: bool = False
    fixtures: bool = False
    """Whether the demo ledger is there, for conformance tests."""


def agent_profile_routes(
    gate: Gate, options: AgentProfileOptions, busy: ConcurrencyLimit, *, max_body_bytes: int
) -> list[BaseRoute]:
    """Return every route of the profile; all other addresses under its paths are answered in the envelope too."""
    agent = {**AGENT_ACTIONS, **(LEDGER_ACTIONS if options.fixtures else {})}
    found: list[BaseRoute] = []
    for prefix, table in ((AGENT_PATH, agent), (ADMIN_PATH, ADMIN_ACTIONS)):
        for path, actions in table.items():
            endpoint = Endpoint(gate=gate, busy=busy, max_body_bytes=max_body_bytes, actions=actions)
            found.append(Route(prefix + path, endpoint))
        found.append(Route(f"{prefix}/{{path:path}}", Unknown()))
    return found
