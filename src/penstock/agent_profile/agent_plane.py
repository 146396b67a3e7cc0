"""The agent plane: what an agent may use, what it would do, and what it does.

Nothing is decided here: lists, previews, drafts and executions are calls of the gate with the agent's own key.

Above it: `surface`. Below it: `exchange`, `views`.
"""

from __future__ import annotations

from typing import Any

from penstock.agent_profile.actions import act, look_at_draft, preflight
from penstock.agent_profile.endpoint import Action
from penstock.agent_profile.exchange import Exchange
from penstock.agent_profile.views import tool_view
from penstock.base.errors import Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.operations.permissions.apps import app_id_of

__all__ = ["AGENT_ACTIONS", "AGENT_PATH", "LEDGER_ACTIONS"]

AGENT_PATH = "/api/agent/v1"
_NUMBERS = ("page", "pageSize")


async def _manifest(exchange: Exchange) -> Any:
    exchange.query()
    principal = await exchange.principal()
    app_id = app_id_of(principal.groups)
    app: JsonObject = {
        "id": app_id or principal.id,
        "name": principal.name or principal.id,
        "scope": "workspace",
        "orgId": principal.tenant,
    }
    visible = await exchange.gate.visible(principal, exchange.standpoint)
    return {"app": app, "tools": [tool_view(item, AGENT_PATH) for item in visible if item.output_schema is not None]}


async def _ledgers(exchange: Exchange) -> Any:
    exchange.query()
    return await exchange.call("ledger.list", {})


async def _transactions(exchange: Exchange) -> Any:
    given = exchange.query("ledgerId", "startDate", "endDate", "page", "pageSize")
    arguments: JsonObject = {name: _converted(name, value) for name, value in given.items()}
    return await exchange.call("transaction.list", arguments)


def _converted(name: str, text: str) -> JsonValue:
    if name not in _NUMBERS:
        return text
    if not text.removeprefix("-").isdecimal() or len(text) > len(str(2**53)):
        raise Rejected("INVALID_ARGUMENTS", f"{name}: {text[:40]!r} is not a whole number", "send one")
    return int(text)


AGENT_ACTIONS: dict[str, dict[str, Action]] = {
    "/manifest": {"GET": _manifest},
    "/preflight": {"POST": preflight},
    "/actions": {"POST": act},
    "/drafts/{id}": {"GET": look_at_draft},
}
LEDGER_ACTIONS: dict[str, dict[str, Action]] = {
    "/ledgers": {"GET": _ledgers},
    "/transactions": {"GET": _transactions},
}
