"""What authors of workflows import in their tests: real runs with scripted activities and a clock that the test moves.

    from penstock.testing import WorkflowTester, in_turn

Read `tester` first; it shows a whole test. The package uses `app` and nothing of the surfaces, and Penstock itself does
not use it.
"""

from __future__ import annotations

from penstock.testing.scripted_activities import NEVER, InTurn, Scripted, in_turn
from penstock.testing.tester import WorkflowTester

__all__ = ["NEVER", "InTurn", "Scripted", "WorkflowTester", "in_turn"]
