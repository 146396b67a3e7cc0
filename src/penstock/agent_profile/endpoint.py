"""One address of the agent profile: an action for each method, and the envelope around whatever comes of it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from starlette.types import Receive, Scope, Send

from penstock.agent_profile.envelope import send_data, send_refusal
from penstock.agent_profile.exchange import Exchange
from penstock.asgi import request_id_of
from penstock.base.errors import NotFound, PenstockError
from penstock.operations.catalogue.errors import report_failure
from penstock.operations.gate.pipeline import Gate
from penstock.rest.endpoints import ConcurrencyLimit
from penstock.rest.responses import method_not_allowed, send_options

__all__ = ["Action", "Endpoint", "Unknown"]

_LOGGER = logging.getLogger("penstock.api")

Action: TypeAlias = Callable[[Exchange], Awaitable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """An ASGI endpoint for one address."""

    gate: Gate
    busy: ConcurrencyLimit
    max_body_bytes: int
    actions: dict[str, Action]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        allowed = ", ".join(sorted({*self.actions, "OPTIONS", *(["HEAD"] if "GET" in self.actions else [])}))
        if scope["method"] == "OPTIONS":
            await send_options(send, allowed)
            return
        held = False
        try:
            self.busy.enter()
            held = True
            action = self.actions.get("GET" if scope["method"] == "HEAD" else scope["method"])
            if action is None:
                raise method_not_allowed(scope["method"], allowed)
            exchange = Exchange.of(self.gate, (scope, receive, send), max_body_bytes=self.max_body_bytes)
            await send_data(send, await action(exchange))
        except PenstockError as error:
            await send_refusal(send, scope, error)
        except Exception as error:
            request_id = request_id_of(scope)
            await send_refusal(send, scope, report_failure(_LOGGER, f"request {request_id} failed", request_id, error))
        finally:
            if held:
                self.busy.leave()


class Unknown:
    """Answers every other address under the profile's paths."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer "not found", in the envelope."""
        path: str = scope["path"]
        message = f"nothing is served at {path[:200]}"
        await send_refusal(
            send, scope, NotFound("ROUTE_NOT_FOUND", message, "the guide to the profile lists the paths")
        )
