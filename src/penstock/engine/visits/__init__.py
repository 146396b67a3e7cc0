"""Visits of a run: which nodes it visited, in which order, nested how, and the status of each visit.

A history lists what happened record by record; a view of a run needs it visit by visit. This package is the only place
that translates one into the other, so the command line, REST, OpenWOP, streams, webhooks and traces agree, each in its
own vocabulary.

Above it: every view of a run. Below it: the records. It is pure: no clock, no store, no document. It does not check
histories, which is `evolve`'s task: a record that cannot follow is ignored. Read `model` first.
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
