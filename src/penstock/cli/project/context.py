"""What the workflows of a project may refer to: steps, other workflows, models, servers, agents and secrets.

    known = project_context(settings, workflows={"refund_order": False})

Only what an operator named in the settings is imported. A step module that cannot be loaded is a problem of the project
and not of a document: it is reported once, and handlers are not checked.

Above it: `findings`, `files`. Below it: the settings, `step_modules`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.app.settings.model import Settings
from penstock.app.settings.secrets import EnvironmentReference, FileReference
from penstock.base.errors import PenstockError
from penstock.cli.project.step_modules import load_steps
from penstock.runtime.secrets import SECRET_PREFIX
from penstock.runtime.steps.registry import StepRegistry

__all__ = ["ProjectContext", "project_context"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectContext:
    """What workflows of the project may refer to, by name."""

    settings: Settings
    steps: StepRegistry | None
    """None when they could not be loaded."""
    problem: PenstockError | None = None
    """Why the steps could not be loaded."""
    workflows: frozenset[str] = field(default_factory=frozenset)
    agents: frozenset[str] = field(default_factory=frozenset)
    """Those of them that are agents."""

    def missing_secret(self, name: str) -> str | None:
        """What to do about a missing secret; None if it is there, or if only running a command could show that."""
        variable = f"{SECRET_PREFIX}{name}"
        if os.environ.get(variable):
            return None
        match self.settings.secrets.get(name):
            case None:
                return f"set the variable {variable}, or list it in `secrets` of the settings"
            case EnvironmentReference(name=listed):
                return None if os.environ.get(listed) else f"set the variable {listed} (or {variable})"
            case FileReference(path=path):
                return None if Path(path).is_file() else f"put it into the file {path}, or set the variable {variable}"
            case _:
                return None


def project_context(
    settings: Settings, *, workflows: Mapping[str, bool], steps: Iterable[Callable[..., Any]] | None = None
) -> ProjectContext:
    """The names that the settings and the project's workflows provide; pass `steps` if they are loaded already.

    `workflows` says of each name whether it is that of an agent.
    """
    registry, names = StepRegistry(), frozenset(workflows)
    agents = frozenset(name for name, is_agent in workflows.items() if is_agent)
    try:
        for function in load_steps(settings.steps.modules) if steps is None else steps:
            registry.register(function)
    except PenstockError as error:
        return ProjectContext(settings=settings, steps=None, problem=error, workflows=names, agents=agents)
    return ProjectContext(settings=settings, steps=registry, workflows=names, agents=agents)
