"""Visits of a run: which nodes it came to, in which order, inside of what, and how each of them stands.

A history says what happened record by record; whoever shows a run wants to know it visit by visit. This is the one
place that reads the one as the other. Command line, REST, OpenWOP, streams, webhooks and traces tell the same because
they read it here, each in words of its own.

Above it: every view of a run. Below it: the records. It is pure: no clock, no store, no document. It decides nothing
and checks nothing, which is `evolve`'s task: a record that cannot follow is let pass.
"""

from penstock.engine.visits.changes import Change, change_of
from penstock.engine.visits.fold import apply, extend, fold, fold_with_state, visits_of
from penstock.engine.visits.model import (
    FanOut,
    NodeVisits,
    RunVisits,
    Visit,
    VisitError,
    VisitScope,
    VisitStatus,
    Wait,
    WaitKind,
)

__all__ = [
    "Change",
    "FanOut",
    "NodeVisits",
    "RunVisits",
    "Visit",
    "VisitError",
    "VisitScope",
    "VisitStatus",
    "Wait",
    "WaitKind",
    "apply",
    "change_of",
    "extend",
    "fold",
    "fold_with_state",
    "visits_of",
]
