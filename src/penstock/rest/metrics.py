"""`/metrics`: the metrics of the process, for Prometheus.

It needs a key with the scope of `system.metrics`, unless the operator made the page public; the gate decides and
records that, as for every call. Tenants other than the default one get figures of their own, as from that operation.
`prometheus`, which renders the metrics, is imported on first use.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.routing import BaseRoute
from starlette.types import Scope

from penstock.asgi import HttpOrigin, remote_of, request_id_of
from penstock.base.ids import DEFAULT_TENANT
from penstock.base.lazy_import import import_alone
from penstock.operations.catalogue.capability import Reply
from penstock.operations.gate.context import Request
from penstock.operations.gate.pipeline import Gate, RefusedCall
from penstock.operations.telemetry.metrics import Telemetry
from penstock.rest.endpoints import authenticated, note_outcome
from penstock.rest.pages import PageAnswer, page
from penstock.rest.requests import headers_of

if TYPE_CHECKING:
    from penstock.rest.prometheus import PrometheusRenderer

__all__ = ["Metrics", "metrics_page"]

_OPERATION = "system.metrics"
_MEDIA_TYPE = "text/plain; version=1.0.0; charset=utf-8"


class Metrics:
    """The metrics of a process; the library that renders them is imported on first use."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._exposition: PrometheusRenderer | None = None

    async def exposition(self) -> PrometheusRenderer:
        """Return the renderer, importing its module on first use."""
        if self._exposition is None:
            module = await asyncio.to_thread(import_alone, "penstock.rest.prometheus")
            self._exposition = module.PrometheusRenderer(self._telemetry)
        return self._exposition

    async def numbers(self) -> dict[str, float]:
        """Return every number by name, for `system.metrics`."""
        return (await self.exposition()).numbers()


def metrics_page(gate: Gate, metrics: Metrics, *, public: bool) -> BaseRoute:
    """Build the page at `/metrics`."""

    async def content(scope: Scope) -> PageAnswer:
        if not public:
            request_id = request_id_of(scope)
            principal = await authenticated(gate, scope, headers_of(scope), _OPERATION)
            outcome = await gate.call(
                Request(
                    operation=_OPERATION,
                    arguments={},
                    principal=principal,
                    surface="rest",
                    request_id=request_id,
                    remote=remote_of(scope),
                    origin=HttpOrigin(scope),
                )
            )
            note_outcome(scope, outcome)
            if isinstance(outcome, RefusedCall):
                raise outcome.error
            if principal.tenant != DEFAULT_TENANT:
                assert isinstance(outcome.reply, Reply)
                return PageAnswer(body=_own_figures(outcome.reply.value.metrics), media_type=_MEDIA_TYPE)
        return PageAnswer(body=(await metrics.exposition()).text(), media_type=_MEDIA_TYPE)

    return page("/metrics", content)


def _own_figures(figures: dict[str, float]) -> bytes:
    """Return the figures of a tenant as text."""
    lines = [f"# TYPE {name} gauge\n{name} {value:g}\n" for name, value in sorted(figures.items())]
    return "".join(lines).encode()
