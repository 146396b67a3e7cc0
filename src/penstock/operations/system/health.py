"""Operations about the server itself: its health, its version, its counters, and what can be called.

How the server does as a whole is for the operator: the default tenant sees every check and counter. Other tenants see
whether the server takes work, and figures of their own.

Above it: the catalogue. Below it: the services of this process.
"""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.base.ids import DEFAULT_TENANT
from penstock.base.json import JsonObject
from penstock.governance.quotas import TENANT_SUBJECT
from penstock.operations.catalogue.capability import Capability, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import instant
from penstock.operations.gate.context import Context, Services
from penstock.operations.gate.listing import allowed_names
from penstock.operations.system.backups import known_backups
from penstock.runtime.tables.usage import read_usage

__all__ = [
    "BACKUPS_CHECK",
    "EXECUTORS_CHECK",
    "FILE_ACCESS_CHECK",
    "GRAPHS_CHECK",
    "GRAPH_FILES_CHECK",
    "OPERATIONS",
    "RETENTION_CHECK",
    "RUNS_CHECK",
    "STAMPS_CHECK",
    "WORKFLOWS_CHECK",
    "WORKFLOW_FILES_CHECK",
    "is_ready",
    "public_checks",
    "tenant_metrics",
]

RUNS_CHECK = "runs"
STAMPS_CHECK = "audit_stamps"
GRAPHS_CHECK = "graphs"
"""Graphs that are quarantined."""
GRAPH_FILES_CHECK = "graph_files"
"""Graphs whose newest files are not in force, though their mistakes would stop a start."""
WORKFLOWS_CHECK = "workflows"
"""Workflow files with mistakes: they are quarantined."""
WORKFLOW_FILES_CHECK = "workflow_files"
"""Named files, folders and patterns that give no workflow any more, which would stop a start."""
RETENTION_CHECK = "retention"
FILE_ACCESS_CHECK = "file_access"
"""Files of the operator that other users of the machine can change."""
EXECUTORS_CHECK = "executors"
"""Executors that cannot be made, so that the runs that need them wait."""
BACKUPS_CHECK = "backups"
"""Scheduled backups that fail, or are late."""
_FOR_THE_OPERATOR = (
    RUNS_CHECK,
    STAMPS_CHECK,
    GRAPHS_CHECK,
    WORKFLOWS_CHECK,
    RETENTION_CHECK,
    FILE_ACCESS_CHECK,
    EXECUTORS_CHECK,
    BACKUPS_CHECK,
)
"""What does not affect readiness, though the operator has to know. A stuck run, a broken executor, and files with
mistakes only affect what needs them. Checkpoints are made without stamps, and what cannot be deleted only takes space.
Files that others can change still work, and so does a server without a new backup."""
_FOR_EVERYBODY = ("store", RUNS_CHECK, STAMPS_CHECK)
"""What a probe without a key shows in full. The others name files."""
_FAILING = "failing"
_MICROS = 1_000_000


def is_ready(checks: dict[str, str]) -> bool:
    """Whether a server with these results can take work."""
    return all(state == "ok" for name, state in checks.items() if name not in _FOR_THE_OPERATOR)


def public_checks(checks: dict[str, str]) -> dict[str, str]:
    """Return the checks as a caller without a key may see them."""
    return {name: state if name in _FOR_EVERYBODY or state == "ok" else _FAILING for name, state in checks.items()}


class Nothing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nothing to say."""


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """`ready` when the server can take work; `checks` says what was looked at."""

    ready: bool
    checks: dict[str, str]
    last_backup_at: str | None
    """When the server made the last backup that it knows of; null without one, and for other tenants."""


class Information(msgspec.Struct, frozen=True, kw_only=True):
    """What this server is."""

    name: str
    version: str
    tenant: str
    principal: str
    scopes: list[str]
    details: dict[str, Any]


class Metrics(msgspec.Struct, frozen=True, kw_only=True):
    """What the server counts, by name; for a tenant other than the default one, what it counts of that tenant."""

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
    """Check the health of the server.

    Checks the store, runs that do not move although they could, executors that cannot be made, scheduled backups, and
    the operator's files: policies, graphs and workflows that cannot be used, and files that other users of the machine
    can change. Tenants other than the default one see only what decides whether the server accepts work. For probes of
    load balancers use /healthz and /readyz, which need no key.
    """
    checks = await context.services.checks()
    ready, last_backup_at = is_ready(checks), None
    if context.tenant == DEFAULT_TENANT:
        last_backup_at = max((seen.at for seen in (await known_backups(context.services)).values()), default=None)
    else:
        checks = {
            name: "ok" if state == "ok" else _FAILING for name, state in checks.items() if name not in _FOR_THE_OPERATOR
        }
    return Health(ready=ready, checks=checks, last_backup_at=instant(last_backup_at))


@operation("system.info", route=Route(method="GET", path="/info"), scopes=(), reads=True)
async def system_info(context: Context, given: Nothing) -> Information:
    """Get the server's version and your identity.

    Returns the version, the configured executors, the tenant and scopes of your key, and the rules that the operator
    chose: the preset of held calls, and whether the maker of a key may approve for it.
    """
    chosen = context.services.holds
    governance: JsonObject = {"preset": chosen.preset, "separate_duties": chosen.approval.not_requester}
    details: JsonObject = {**context.services.information, "governance": governance}
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
    """Read the server's metrics.

    Returns the figures that /metrics gives to Prometheus, as JSON. Figures of the whole server are for the default
    tenant. Other tenants read their own use: runs that have not ended, tokens and cost since midnight UTC, and the runs
    since then if a quota counts them.
    """
    if context.tenant == DEFAULT_TENANT:
        return Metrics(metrics=await context.services.read_metrics())
    return Metrics(metrics=await tenant_metrics(context.services, context.tenant))


async def tenant_metrics(services: Services, tenant: str) -> dict[str, float]:
    """Return the figures of one tenant by name. Starts of a day are among them if a quota has them counted."""
    used = await read_usage(services.platform, tenant, TENANT_SUBJECT, at=services.clock.now_ms())
    figures = {
        "penstock_tenant_runs_open": float(used.runs_now),
        "penstock_tenant_tokens_today": float(used.tokens),
        "penstock_tenant_cost_dollars_today": used.cost / _MICROS,
    }
    if services.quotas is not None and (await services.quotas.limits_of(tenant, TENANT_SUBJECT)).bounds_starts:
        figures["penstock_tenant_runs_today"] = float(used.runs)
    return figures


@operation("system.operations", route=Route(method="GET", path="/operations"), scopes=(), reads=True)
async def system_operations(context: Context, given: Nothing) -> Operations:
    """List what you can call.

    Returns every operation that your scopes allow and that policies permit with some arguments, with its schema, scopes
    and REST path.
    """
    catalogue = context.services.catalogue
    capabilities = catalogue.all() if catalogue is not None else ()
    allowed = await allowed_names(context.services, context.principal, capabilities, context.request.standpoint)
    return Operations(items=[_view(capability) for capability in capabilities if capability.name in allowed])


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
