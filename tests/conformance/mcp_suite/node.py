"""Programs for Node.js that tests run: Node.js itself and what `requirements/node` pins, installed when first needed.

Above it: the official suite, clients that others wrote. Below it: `scripts/lib/node.sh`.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["ROOT", "NodePrograms", "node_programs"]

ROOT = Path(__file__).parents[3]
_SET_UP = """
set -euo pipefail
source scripts/lib/environment.sh
source scripts/lib/node.sh
use_node
printf '%s\\n%s\\n' "$NODE" "$NODE_MODULES"
"""
# An index may be slow; nothing is fetched when all of it is there.
_SECONDS_MAX = 600


@dataclass(frozen=True, slots=True)
class NodePrograms:
    """Where they are."""

    command: str
    modules: Path

    def run(self, script: str, *arguments: str) -> list[str]:
        """The command that runs a script of an installed package, by its path below `node_modules`."""
        return [self.command, str(self.modules / script), *arguments]


@cache
def node_programs() -> NodePrograms:
    """The programs, installed now if they are not there."""
    given = os.environ.get("NODE"), os.environ.get("NODE_MODULES")
    if given[0] and given[1]:
        return NodePrograms(given[0], Path(given[1]))
    done = subprocess.run(
        ["bash", "-c", _SET_UP], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True, timeout=_SECONDS_MAX
    )
    command, modules = done.stdout.splitlines()
    return NodePrograms(command, Path(modules))
