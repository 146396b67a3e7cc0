"""The built-in operations, all of them.

Above it: `app` fills the catalogue with these. Below it: one module per resource.
"""

from __future__ import annotations

from penstock.operations import (
    accepting,
    attending,
    audits,
    bundles,
    control,
    disabling,
    execution_changes,
    execution_messages,
    execution_starts,
    execution_streams,
    executions,
    keys,
    registries_agents,
    registries_models,
    registries_schemas,
    registries_tools,
    restoring,
    retained,
    scheduled,
    schedules,
    systems,
    tasks,
    upstreams,
    webhook_endpoints,
    webhook_triggers,
    workflows,
)
from penstock.operations.capability import Capability

__all__ = ["builtin_operations", "internal_operations"]

_MODULES = (
    workflows,
    bundles,
    tasks,
    executions,
    execution_starts,
    attending,
    execution_changes,
    execution_messages,
    execution_streams,
    schedules,
    control,
    keys,
    audits,
    registries_schemas,
    registries_models,
    registries_tools,
    registries_agents,
    upstreams,
    webhook_endpoints,
    webhook_triggers,
    systems,
)


# What only the process itself calls.
_INTERNAL = (scheduled, retained, disabling, accepting, restoring)


def internal_operations() -> tuple[Capability, ...]:
    """Every operation that nobody outside can call."""
    return tuple(capability for module in _INTERNAL for capability in module.OPERATIONS)


def builtin_operations() -> tuple[Capability, ...]:
    """Every built-in operation."""
    return tuple(capability for module in _MODULES for capability in module.OPERATIONS)
