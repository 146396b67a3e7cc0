"""Operations about the server itself: its health, its version, its counters, and what can be called.

Above it: the catalogue. Below it: the services of this process.
"""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.base.json import JsonObject
from penstock.operations.catalogue.capability import Capability, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.gate.context import Context

__all__ = ["OPERATIONS", "RUNS_CHECK", "is_ready"]

RUNS_CHECK = "runs"
"""The one check that does not affect readiness: stuck runs concern the operator, and other runs are still served."""


def is_ready(checks: dict[str, str]) -> bool:
    """Whether a server with these results can take work."""
    return all(state == "ok" for name, state in checks.items() if name != RUNS_CHECK)


class Nothing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nothing to say."""


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """`ready` when the server can take work; `checks` says what was looked at."""

    ready: bool
    checks: dict[str, str]


class Information(msgspec.Struct, frozen=True, kw_only=True):
    """What this server is."""

    name: str
    version: str
    tenant: str
    principal: str
    scopes: list[str]
    details: dict[str, Any]


class Metrics(msgspec.Struct, frozen=True, kw_only=True):
    """What the server counts, by name."""

    metrics: dict[str, float]


class OperationView(msgspec.Struct, frozen=True, kw_only=True):
    """Something that can be called."""

    name: str
    title: str
    description: str
    method: str | None
    path: str | None
    scopes: list[str]
    risk: str
    read_only: bool
    destructive: bool
    input_schema: dict[str, Any]


class Operations(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that can be called."""

    items: list[OperationView]


@operation("system.health", route=Route(method="GET", path="/health"), scopes=("system:read",), reads=True)
async def system_health(context: Context, given: Nothing) -> Health:
    """Ask whether the server is well.

    Looks at the store, and at runs that do not move although there is work to do for them. Probes of load balancers use
    /healthz and /readyz, which need no key.
    """
    checks = await context.services.checks()
    return Health(ready=is_ready(checks), checks=checks)


@operation("system.info", route=Route(method="GET", path="/info"), scopes=(), reads=True)
async def system_info(context: Context, given: Nothing) -> Information:
    """Ask what the server is and who you are.

    Version, configured executors, and the tenant and scopes of the key that asks.
    """
    details: JsonObject = dict(context.services.information)
    version = details.pop("version", "")
    return Information(
        name="penstock",
        version=version if isinstance(version, str) else "",
        tenant=context.tenant,
        principal=context.principal.id,
        scopes=sorted(context.principal.scopes),
        details=details,
    )


@operation("system.metrics", route=Route(method="GET", path="/metrics"), scopes=("system:read",), reads=True)
async def system_metrics(context: Context, given: Nothing) -> Metrics:
    """Read the server's counters.

    The same figures that /metrics gives to Prometheus, as JSON.
    """
    return Metrics(metrics=await context.services.read_metrics())


@operation("system.operations", route=Route(method="GET", path="/operations"), scopes=(), reads=True)
async def system_operations(context: Context, given: Nothing) -> Operations:
    """List what can be called.

    Every operation with its schema, scopes and REST path.
    """
    catalogue = context.services.catalogue
    capabilities = catalogue.all() if catalogue is not None else ()
    return Operations(items=[_view(capability) for capability in capabilities])


def _view(capability: Capability) -> OperationView:
    route = capability.route
    return OperationView(
        name=capability.name,
        title=capability.title,
        description=capability.description,
        method=route.method if route else None,
        path=route.path if route else None,
        scopes=list(capability.governance.scopes),
        risk=capability.governance.risk,
        read_only=capability.annotations.read_only,
        destructive=capability.annotations.destructive,
        input_schema=capability.input_schema,
    )


OPERATIONS: tuple[Capability, ...] = (system_health, system_info, system_metrics, system_operations)
