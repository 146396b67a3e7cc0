"""What documents name beside workflows, compared with what the tenant has: warnings for whoever stores a document.

Above it: `operations`, `documents`. Below it: the checks of `definitions`, the platform store.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.base import limits
from penstock.base.json import JsonObject
from penstock.definitions.checks.models import unknown_models
from penstock.definitions.source.findings import Finding, Severity
from penstock.operations.gate.context import Context

__all__ = ["reference_warnings"]

_TODO = "register it with model.create, or write `provider` beside it"


async def reference_warnings(context: Context, document: JsonObject) -> tuple[Finding, ...]:
    """Return the models that nodes name and that neither the tenant nor the settings have."""
    services = context.services
    configured = services.configured_models
    found = tuple(unknown_models(document, configured.names, configured.providers, todo=_TODO))
    if not found:
        return ()
    page = await services.platform.resources(context.tenant, "model", limit=limits.PAGE_LIMIT_MAX)
    names = {*configured.names, *(row.resource_id for row in page.rows)}
    while page.next_cursor is not None:
        page = await services.platform.resources(
            context.tenant, "model", limit=limits.PAGE_LIMIT_MAX, cursor=page.next_cursor
        )
        names.update(row.resource_id for row in page.rows)
    found = tuple(unknown_models(document, names, configured.providers, todo=_TODO))
    return tuple(replace(item, severity=Severity.WARNING) for item in found)  # it may be registered later
