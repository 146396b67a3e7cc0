"""Agent cards: what an A2A client reads first of an agent. One card serves both versions of the protocol.

Above it: `endpoint`. Below it: what `agent.cards` says, `legacy`.
"""

from __future__ import annotations

from typing import Any, Final

from penstock.a2a.legacy import LEGACY_VERSION, legacy_fields
from penstock.base.json import JsonObject

__all__ = ["CARD_PATH", "PROTOCOL_VERSION", "RPC_PATH", "card_of"]

PROTOCOL_VERSION: Final = "1.0"
CARD_PATH: Final = "/.well-known/agent-card.json"
RPC_PATH: Final = "/a2a"
_MODES: Final = ("text/plain", "application/json")


def card_of(card: dict[str, Any], base_url: str) -> JsonObject:
    """Return the card of an agent that is served at an address."""
    title, description = str(card["title"]), str(card["description"])
    modes = list(_MODES)
    skill: JsonObject = {
        "id": card["agent_id"],
        "name": title,
        "description": description,
        "tags": ["agent"],
        "inputModes": [*modes],
        "outputModes": [*modes],
    }
    url = f"{base_url}{RPC_PATH}/{card['agent_id']}"
    return {
        **legacy_fields(url),
        "name": title,
        "description": description,
        "version": card["version"],
        "supportedInterfaces": [
            {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": version}
            for version in (PROTOCOL_VERSION, LEGACY_VERSION)
        ],
        "capabilities": {"streaming": True, "pushNotifications": True, "extendedAgentCard": False},
        # The first two are what 0.3 reads.
        "securitySchemes": {
            "bearer": {"type": "http", "scheme": "Bearer", "httpAuthSecurityScheme": {"scheme": "Bearer"}}
        },
        "securityRequirements": [{"schemes": {"bearer": {"list": []}}}],
        "defaultInputModes": [*modes],
        "defaultOutputModes": [*modes],
        "skills": [skill],
    }
