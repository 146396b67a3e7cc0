"""The A2A surface of a server: the addresses of its agents. `app.serving` adds it to the other surfaces.

    GET  /.well-known/agent-card.json                   the card of the only agent
    GET  /a2a/{agent_id}/.well-known/agent-card.json    the card of an agent
    POST /a2a/{agent_id}                                its JSON-RPC address

Above it: `app.serving`. Below it: `endpoint`.
"""

from __future__ import annotations

from starlette.routing import BaseRoute, Route

from penstock.a2a.cards import CARD_PATH, RPC_PATH
from penstock.a2a.endpoint import CardEndpoint, RpcEndpoint
from penstock.operations.gate.pipeline import Gate
from penstock.rest.endpoints import ConcurrencyLimit

__all__ = ["a2a_routes"]


def a2a_routes(
    gate: Gate, busy: ConcurrencyLimit, *, max_body_bytes: int, server_url: str | None = None
) -> list[BaseRoute]:
    """Return every route. `server_url` is the address that clients use, if it is known."""
    card = CardEndpoint(gate=gate, busy=busy, max_body_bytes=max_body_bytes, server_url=server_url)
    rpc = RpcEndpoint(gate=gate, busy=busy, max_body_bytes=max_body_bytes)
    one = f"{RPC_PATH}/{{agent_id}}"
    return [Route(CARD_PATH, card), Route(f"{one}{CARD_PATH}", card), Route(one, rpc)]
