"""What authors of workflows import in their tests: a bench with scripted activities and a clock that they move.

    from penstock.testing import WorkflowTester, in_turn

Above it: tests of other people. Below it: `app.testing`, where everything is explained. Penstock uses none of it.
"""

from __future__ import annotations

from penstock.app.testing.bench import NEVER, InTurn, Scripted, WorkflowTester, in_turn

__all__ = ["NEVER", "InTurn", "Scripted", "WorkflowTester", "in_turn"]
