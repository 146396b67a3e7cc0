"""The built-in operations, all of them.

Above it: `app` fills the catalogue with these. Below it: one module per resource.
"""

from __future__ import annotations

from penstock.operations.catalogue.capability import Capability
from penstock.operations.executions import changes, control_plane, execute, messages, reads, streams
from penstock.operations.keys import operations as keys
from penstock.operations.registries import kinds as registries
from penstock.operations.schedules import operations
from penstock.operations.schedules import starts as scheduled
from penstock.operations.system import audits, health, restores, retention
from penstock.operations.upstreams import accepting
from penstock.operations.upstreams import operations as upstreams
from penstock.operations.webhooks import disabling, endpoints, triggers
from penstock.operations.workflows import bundles, tasks
from penstock.operations.workflows import operations as workflows

__all__ = ["builtin_operations", "internal_operations"]

_MODULES = (
    workflows,
    bundles,
    tasks,
    reads,
    execute,
    changes,
    messages,
    streams,
    operations,
    control_plane,
    keys,
    audits,
    registries,
    upstreams,
    endpoints,
    triggers,
    health,
)


# What only the process itself calls.
_INTERNAL = (scheduled, retention, disabling, accepting, restores)


def internal_operations() -> tuple[Capability, ...]:
    """Every operation that nobody outside can call."""
    return tuple(capability for module in _INTERNAL for capability in module.OPERATIONS)


def builtin_operations() -> tuple[Capability, ...]:
    """Every built-in operation."""
    return tuple(capability for module in _MODULES for capability in module.OPERATIONS)
