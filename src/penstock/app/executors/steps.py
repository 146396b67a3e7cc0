"""The executor of Python steps, for packages that may not import adapters themselves.

Above it: `penstock.testing`. Below it: `runtime.executors`.
"""

from __future__ import annotations

from penstock.runtime.executors.step.executor import StepExecutor
from penstock.runtime.steps.registry import StepRegistry

__all__ = ["step_executor"]


def step_executor(registry: StepRegistry) -> StepExecutor:
    """An executor that calls the functions of a registry, in this process."""
    return StepExecutor(registry)
