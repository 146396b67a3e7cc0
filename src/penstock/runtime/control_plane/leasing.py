"""Leasing host-mediated activities: parse a host's request, and return what the run granted.

Above it: `functions`, `run_handle`. Below it: the engine's leases.
"""

from __future__ import annotations

import math

from penstock.base.json import JsonValue
from penstock.definitions.model import Workflow
from penstock.engine import inputs
from penstock.engine.effects import PerformActivity
from penstock.engine.outcomes import Accepted, Refused
from penstock.engine.pending import pending_activities
from penstock.engine.records import events
from penstock.engine.state import RunState

__all__ = ["lease_ms_of", "leased", "leased_activity", "read_lease"]


def lease_ms_of(seconds: float) -> int:
    """Convert seconds to milliseconds; a value that is not finite becomes -1, which every run refuses."""
    return round(seconds * 1000) if math.isfinite(seconds) else -1


def read_lease(at: int, wanted: JsonValue) -> inputs.LeaseActivity | Refused:
    """Parse a lease request: node_id, holder, seconds, and optionally visit and extend."""
    named = wanted if isinstance(wanted, dict) else {}
    node_id, holder, seconds = named.get("node_id"), named.get("holder"), named.get("seconds")
    if not isinstance(node_id, str) or not isinstance(holder, str):
        return Refused(
            "VALIDATION_ERROR", "lease must be {node_id, holder, seconds}, where needed with visit and extend"
        )
    if not isinstance(seconds, int | float) or isinstance(seconds, bool):
        return Refused("VALIDATION_ERROR", "lease.seconds must be a number; 0 gives the activity back")
    visit = named.get("visit")
    if visit is not None and (not isinstance(visit, int) or isinstance(visit, bool)):
        return Refused("VALIDATION_ERROR", "lease.visit must be a whole number")
    return inputs.LeaseActivity(
        at=at,
        node_id=node_id,
        holder=holder,
        lease_ms=lease_ms_of(seconds),
        visit=visit,
        extend=named.get("extend") is True,
    )


def leased(decision: Accepted, given: inputs.LeaseActivity) -> events.ActivityLeased | Refused:
    """Return the recorded lease, or a refusal if the run found that the activity may already have been performed."""
    for record in reversed(decision.records):
        body = record.body_as(events.ActivityLeased)
        if body is not None:
            return body
    message = f"an earlier lease holder may have performed {given.node_id}, which must not happen twice"
    return Refused("ACTIVITY_OUTCOME_UNKNOWN", message, "report its outcome, or retry it")


def leased_activity(workflow: Workflow, state: RunState, lease: events.ActivityLeased) -> PerformActivity:
    """Return the leased activity, with everything that is needed to perform it."""
    activities = pending_activities(workflow, state)
    return next(item for item in activities if (item.node_id, item.visit) == (lease.node_id, lease.visit))
