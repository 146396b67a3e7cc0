"""Every function of `runtime.tables`, called with example data: the table of all uses.

Tests run them to record and prepare every statement, to see which locks are taken, to let each pair of changes race
from two connections, and to let each statement fail. A new family is a module here and an entry in `FAMILIES`.

Read `family` first.
"""

from tests.conformance.families.audit import AUDIT
from tests.conformance.families.definitions import DEFINITIONS
from tests.conformance.families.deliveries import DELIVERIES
from tests.conformance.families.family import Call, Family, function_of
from tests.conformance.families.keys import CALLS, KEYS
from tests.conformance.families.memory import MEMORY
from tests.conformance.families.resources import RESOURCES
from tests.conformance.families.runs import RUNS
from tests.conformance.families.usage import USAGE
from tests.conformance.families.workers import SCHEDULES, SPENDING, WORKERS

__all__ = ["CHANGES", "FAMILIES", "GIVEN", "READS", "SEVERAL", "Call", "Family", "function_of"]

FAMILIES: dict[str, Family] = {
    "keys": KEYS,
    "calls": CALLS,
    "audit": AUDIT,
    "resources": RESOURCES,
    "deliveries": DELIVERIES,
    "usage": USAGE,
    "runs": RUNS,
    "definitions": DEFINITIONS,
    "schedules": SCHEDULES,
    "workers": WORKERS,
    "spending": SPENDING,
    "memory": MEMORY,
}
GIVEN: list[Call] = [call for family in FAMILIES.values() for call in family.given]
"""What fills the tables before anything else."""
CHANGES: dict[str, Call] = {name: call for family in FAMILIES.values() for name, call in family.changes.items()}
SEVERAL = frozenset({"append: together"})
"""Calls of several changes, of which each is made or fails alone."""
READS: dict[str, Call] = {name: call for family in FAMILIES.values() for name, call in family.reads.items()}
