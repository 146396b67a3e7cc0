"""The routes under /hooks, where requests from other systems start or signal runs.

They need no API key; errors are problem documents, as everywhere. Nothing is decided here: the request goes to
`operations.webhooks.receiver` as it arrived.
"""

from __future__ import annotations

from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from penstock.asgi import AUDITED, remote_of, request_id_of
from penstock.base import limits
from penstock.base.encoding import encode_bytes
from penstock.base.errors import Denied, LimitExceeded, NotFound, PenstockError
from penstock.operations.gate.pipeline import Gate
from penstock.operations.webhooks.receiver import HookAnswer, WebhookReceiver
from penstock.operations.webhooks.requests import HookRequest
from penstock.rest.endpoints import ConcurrencyLimit
from penstock.rest.requests import read_body
from penstock.rest.responses import send_problem, send_response

__all__ = ["hook_pages"]

_JSON = (b"content-type", b"application/json")
_ACCEPTED = 202


class _Hooks:
    """The ASGI endpoint for every address under /hooks."""

    surface = "webhook"

    def __init__(self, gate: Gate, busy: ConcurrencyLimit) -> None:
        self._gate = gate
        self._receiver = WebhookReceiver.of(gate)
        self._busy = busy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._busy.now >= self._busy.maximum:
            message = f"the server takes at most {self._busy.maximum} webhooks at once"
            wait = {"retry_after_seconds": 1}
            error = LimitExceeded("TOO_MANY_REQUESTS_IN_FLIGHT", message, "try again in a second", {**wait})
            await send_problem(send, scope, error)
            return
        self._busy.now += 1
        try:
            answer = await self._answer(scope, receive)
        except PenstockError as error:
            answer = error
        finally:
            self._busy.now -= 1
        if isinstance(answer, Denied | NotFound):
            answer = self._gate.peers.count(remote_of(scope), failed=True) or answer
        if isinstance(answer, HookAnswer):
            status = _ACCEPTED if answer.status == "accepted" else 200
            await send_response(send, status, encode_bytes(answer), [_JSON])
        else:
            await send_problem(send, scope, answer)

    async def _answer(self, scope: Scope, receive: Receive) -> HookAnswer | PenstockError:
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        body = await read_body(receive, scope, headers, self._gate.services.webhooks.max_body_bytes)
        answer = await self._receiver.receive(
            HookRequest(
                path=scope["path_params"]["path"],
                method=scope["method"],
                headers=headers,
                query_string=scope["query_string"].decode("latin-1"),
                body=body,
                request_id=request_id_of(scope),
                remote=remote_of(scope),
            )
        )
        scope["state"][AUDITED] = True  # the receiver or the gate has recorded the outcome
        return answer


def hook_pages(gate: Gate, *, at_once_max: int = limits.REQUESTS_AT_ONCE_MAX) -> list[BaseRoute]:
    """Build the route for `/hooks/{path}`, and for `/hooks/@{tenant}/{path}` of tenants other than the default one."""
    return [Route("/hooks/{path:path}", _Hooks(gate, ConcurrencyLimit(at_once_max)))]
