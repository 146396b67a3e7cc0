"""Resolve the beginning of a run id to a run.

Above it: `runs.client`, `run.source`. Below it: nothing but data.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from penstock.base.errors import PenstockError
from penstock.cli.terminal.values import UsageError

__all__ = ["CANDIDATES_MAX", "match_run"]

CANDIDATES_MAX: Final = 10
"""How many runs are considered when the user types the beginning of an id."""


def match_run(beginning: str, rows: Iterable[Any], unknown: PenstockError) -> str:
    """The only run of a list whose id begins so; `unknown` is raised without one."""
    found = [str(row["execution_id"]) for row in rows if row["execution_id"].startswith(beginning)]
    # A parent's id is the beginning of its children's ids: naming it means the parent.
    found = [name for name in found if not any(name.startswith(f"{other}:") for other in found)]
    if not found:
        raise unknown
    if len(found) > 1:
        raise UsageError(f"several runs begin with {beginning}: {', '.join(found)}")
    return found[0]
