"""What documents name beside workflows: registered schemas are filled in, and models that nobody has are warned of.

Above it: `operations`, `documents`. Below it: the checks of `definitions`, the platform store.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.checks.models import unknown_models
from penstock.definitions.checks.named_schemas import named_schemas_of, reference_findings, with_named_schemas
from penstock.definitions.source.findings import Finding, Severity
from penstock.operations.gate.context import Context
from penstock.operations.named_schemas import find_schemas, known_schemas
from penstock.runtime.tables.resources import list_resources

__all__ = ["Filled", "filled_in", "reference_warnings"]

_NOT_RESOLVED = "SCHEMA_NOT_RESOLVED"
_SCHEMA_TODO = "register it with schema.create"
_TODO = "register it with model.create, or write `provider` beside it"


@dataclass(frozen=True, slots=True)
class Filled:
    """A document with the registered schemas that it refers to, and everything that is wrong with it."""

    document: Any
    findings: tuple[Finding, ...]


async def filled_in(context: Context, document: JsonValue, findings: tuple[Finding, ...]) -> Filled:
    """Fill the registered schemas into a document whose findings are known already.

    A finding about a reference keeps the position in the text that the document was read from.
    """
    threads = context.services.documents.threads  # a document of thousands of nodes is walked for some time
    references = await threads.run(context.tenant, named_schemas_of, document)
    if not references or not isinstance(document, dict):
        return Filled(document, findings)
    others = tuple(item for item in findings if item.code != _NOT_RESOLVED)
    places = {item.path: item.position for item in findings if item.code == _NOT_RESOLVED}
    found = await find_schemas(context, references)
    known = [] if len(found) == len({item.text for item in references}) else await known_schemas(context)
    problems = reference_findings(document, references, found, known, todo=_SCHEMA_TODO)
    if problems:
        placed = (replace(item, position=places.get(item.path)) for item in problems)
        return Filled(document, (*others, *placed))
    made = await threads.run(context.tenant, with_named_schemas, document, found)
    seen = {(item.code, item.path) for item in others}
    checked = await context.services.documents.findings(made, tenant=context.tenant)
    return Filled(made, (*others, *(item for item in checked if (item.code, item.path) not in seen)))


async def reference_warnings(context: Context, document: JsonObject) -> tuple[Finding, ...]:
    """Return the models that nodes name and that neither the tenant nor the settings have."""
    services = context.services
    configured = services.configured_models
    threads = services.documents.threads
    found = await threads.run(context.tenant, _unknown, document, configured.names, configured.providers)
    if not found:
        return ()
    page = await list_resources(services.platform, context.tenant, "model", limit=limits.PAGE_LIMIT_MAX)
    names = {*configured.names, *(row.resource_id for row in page.rows)}
    while page.next_cursor is not None:
        page = await list_resources(
            services.platform, context.tenant, "model", limit=limits.PAGE_LIMIT_MAX, cursor=page.next_cursor
        )
        names.update(row.resource_id for row in page.rows)
    found = await threads.run(context.tenant, _unknown, document, names, configured.providers)
    return tuple(replace(item, severity=Severity.WARNING) for item in found)  # it may be registered later


def _unknown(document: JsonObject, names: Collection[str], providers: Collection[str]) -> tuple[Finding, ...]:
    return tuple(unknown_models(document, names, providers, todo=_TODO))
