"""The pure engine: a run is an append-only history, and these functions are everything that writes or reads it.

``decide(workflow, state, input)`` returns records, ``evolve(state, record)`` folds one record into the state, and
``pending(workflow, state, now)`` lists the effects that are due. `replay` checks a history against its workflow; `fork`
starts a new run from the first records of another. The engine has no clock, no randomness, no I/O, no logging and no
waiting. Read `decide` first.
"""

from penstock.engine.decide import decide
from penstock.engine.folding.evolve import evolve, fold
from penstock.engine.fork import fork
from penstock.engine.outcomes import Accepted, Decision, Refused
from penstock.engine.pending import next_wake_up_at, pending, pending_activities
from penstock.engine.records import Record, record_of, row_of
from penstock.engine.replay import Diverged, Replayed, replay
from penstock.engine.state import RunState
from penstock.engine.status import published_phase, run_status

__all__ = [
    "Accepted",
    "Decision",
    "Diverged",
    "Record",
    "Refused",
    "Replayed",
    "RunState",
    "decide",
    "evolve",
    "fold",
    "fork",
    "next_wake_up_at",
    "pending",
    "pending_activities",
    "published_phase",
    "record_of",
    "replay",
    "row_of",
    "run_status",
]
