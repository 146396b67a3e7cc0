"""The package for tests of workflows: real runs with scripted activities and a clock that the test moves.

    from penstock.testing import WorkflowTester, in_turn

The package uses `app` and no surface, and Penstock itself does not use it. Read `tester` first; it shows a whole test.
"""

from __future__ import annotations

from penstock.testing.scripted_activities import NEVER, InTurn, Scripted, in_turn
from penstock.testing.tester import WorkflowTester

__all__ = ["NEVER", "InTurn", "Scripted", "WorkflowTester", "in_turn"]
