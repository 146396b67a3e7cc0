"""The built-in operations, all of them: what the modules of the resources list as their `OPERATIONS`.

Every module of a resource is searched, so that adding an operation touches one file. An operation without a route is
internal: only the process itself calls it.

Above it: `app` fills the catalogue with these. Below it: one package per resource.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pkgutil import iter_modules
from types import ModuleType

from penstock.base.lazy_import import import_alone
from penstock.operations import (
    audit,
    drafts,
    executions,
    graphs,
    keys,
    memory,
    policies,
    quotas,
    registries,
    schedules,
    system,
    upstreams,
    webhooks,
    workflows,
)
from penstock.operations.agent_profile.apps import APP_OPERATIONS
from penstock.operations.agent_profile.handles import HANDLE_OPERATIONS
from penstock.operations.agent_profile.transactions import LEDGER_OPERATIONS
from penstock.operations.catalogue.capability import Capability

__all__ = ["builtin_operations", "internal_operations", "profile_operations"]

_RESOURCES = (
    workflows,
    executions,
    drafts,
    schedules,
    graphs,
    memory,
    keys,
    audit,
    policies,
    quotas,
    system,
    registries,
    upstreams,
    webhooks,
)
# The order in which operations are documented. Modules that are not listed come last.
_ORDER = (
    "workflows.operations",
    "workflows.bundles",
    "workflows.tasks",
    "executions.reads",
    "executions.execute",
    "executions.changes",
    "executions.messages",
    "executions.streams",
    "executions.moves",
    "executions.pictures",
    "schedules.operations",
    "graphs.graphs",
    "graphs.schemas",
    "graphs.branches",
    "graphs.commits",
    "graphs.queries",
    "graphs.adhoc",
    "graphs.loading",
    "memory.operations",
    "executions.control_plane",
    "keys.operations",
    "quotas.operations",
    "audit.records",
    "audit.verification",
    "audit.checkpoints",
    "audit.proofs",
    "audit.holds",
    "policies.documents",
    "policies.explaining",
    "policies.replaying",
    "keys.token_revocations",
    "keys.console_sessions",
    "system.audits",
    "registries.schemas",
    "registries.models",
    "registries.tools",
    "registries.agents",
    "upstreams.operations",
    "upstreams.sign_ins",
    "webhooks.endpoints",
    "webhooks.triggers",
    "system.health",
)


def internal_operations() -> tuple[Capability, ...]:
    """Return every operation that only the process itself can call."""
    return tuple(capability for capability in _operations() if capability.route is None)


def builtin_operations() -> tuple[Capability, ...]:
    """Return every operation that callers can use."""
    return tuple(capability for capability in _operations() if capability.route is not None)


def profile_operations(*, fixtures: bool) -> tuple[Capability, ...]:
    """Return the operations that exist only with the agent profile: apps, and with `fixtures` its demo ledger."""
    return (*APP_OPERATIONS, *HANDLE_OPERATIONS, *(LEDGER_OPERATIONS if fixtures else ()))


@cache
def _operations() -> tuple[Capability, ...]:
    modules = sorted((module for resource in _RESOURCES for module in _modules(resource)), key=_place)
    return tuple(capability for module in modules for capability in getattr(module, "OPERATIONS", ()))


def _modules(resource: ModuleType) -> Iterator[ModuleType]:
    for found in iter_modules(resource.__path__, f"{resource.__name__}."):
        yield import_alone(found.name)


def _place(module: ModuleType) -> int:
    name = ".".join(module.__name__.split(".")[-2:])
    return _ORDER.index(name) if name in _ORDER else len(_ORDER)
