"""Leases on host-mediated activities: who performs one, until when, and who may submit its result.

A host that leases an activity keeps others from doing the same work. Another host may take over a lease that has
expired; the previous holder learns this when it submits. Leases bind only hosts that use them: a submit that names no
holder is always accepted.

Above it: `decide`, `activities`. Below it: `turn`. There is no timer: a lease is compared with the time of an input.
"""

from __future__ import annotations

from penstock.base import limits
from penstock.base.json import JsonObject
from penstock.definitions.durations import format_instant
from penstock.engine.inputs import LeaseActivity
from penstock.engine.outcomes import Refused
from penstock.engine.records import events
from penstock.engine.state import Activation, Lease
from penstock.engine.transitions import Phase
from penstock.engine.walk.turn import Turn, happens_at_most_once

__all__ = ["lease_activity", "refuse_lost_lease"]


def lease_activity(turn: Turn, given: LeaseActivity) -> Refused | None:
    """Record that a holder leases an activity, or gives it back (a lease of 0 ms)."""
    unfit = _invalid_request(turn, given)
    if unfit is not None:
        return unfit
    activation = _activation_to_lease(turn, given)
    if isinstance(activation, Refused):
        return activation
    held = activation.lease
    if (given.extend or not given.lease_ms) and (held is None or held.holder != given.holder):
        return _lease_lost(activation, given.holder)
    if held is not None and held.holder != given.holder:
        if given.at < held.until:
            message = f"{activation.node_id} is leased by {held.holder} until {format_instant(held.until)}"
            return Refused("ACTIVITY_LEASED", message, "lease another activity, or try again then", _details(held))
        if happens_at_most_once(turn.workflow, activation):
            # The previous holder may have performed it. A person decides; another host must not repeat it.
            turn.record(events.ActivityOutcomeUnknown(*activation.key, attempt=activation.attempt))
            return None
    until = given.at + given.lease_ms
    turn.record(
        events.ActivityLeased(*activation.key, attempt=activation.attempt, holder=given.holder, lease_until=until)
    )
    return None


def refuse_lost_lease(activation: Activation, holder: str | None) -> Refused | None:
    """Refuse a submit whose sender has lost the lease. A submit without a sender cannot lose one."""
    held = activation.lease
    if holder is None or (held is not None and held.holder == holder):
        return None
    return _lease_lost(activation, holder)


def _invalid_request(turn: Turn, given: LeaseActivity) -> Refused | None:
    if turn.state.mode != "host_mediated":
        message = f"run {turn.state.run_id} is not host-mediated, so its activities cannot be leased"
        return Refused("ACTIVITY_LEASE_NOT_ALLOWED", message)
    if not given.holder or len(given.holder) > limits.LEASE_HOLDER_CHARACTERS_MAX:
        message = f"the name of a holder must have 1 to {limits.LEASE_HOLDER_CHARACTERS_MAX} characters"
        return Refused("VALIDATION_ERROR", message)
    if not 0 <= given.lease_ms <= limits.ACTIVITY_LEASE_MS_MAX:
        return Refused(
            "VALIDATION_ERROR", f"a lease must last 0 to {limits.ACTIVITY_LEASE_MS_MAX} ms; extend it for longer work"
        )
    return None


def _activation_to_lease(turn: Turn, given: LeaseActivity) -> Activation | Refused:
    """Return the activation to lease; without a visit, prefer one that is free."""
    state = turn.state
    requested = [item for item in state.activations() if item.phase is Phase.REQUESTED]
    named = [item for item in requested if item.node_id == given.node_id and given.visit in (None, item.visit)]
    if not named:
        waiting = ", ".join(sorted({item.node_id for item in requested})) or "nothing"
        message = f"{given.node_id} is not waiting to be performed; waiting: {waiting}"
        return Refused("ACTIVITY_SUBMIT_NOT_AWAITING", message)
    own = [item for item in named if item.lease is not None and item.lease.holder == given.holder]
    if given.extend or not given.lease_ms:
        return (own or named)[0]
    free = [item for item in named if item.lease is None or item.lease.until <= given.at]
    return (free or own or named)[0]


def _lease_lost(activation: Activation, holder: str) -> Refused:
    held = activation.lease
    if held is None:
        message = f"{holder} has no lease on attempt {activation.attempt} of {activation.node_id}"
        return Refused("ACTIVITY_LEASE_LOST", message, "lease the activity first, or name no holder")
    message = f"{holder} lost {activation.node_id} to {held.holder}, who has it until {format_instant(held.until)}"
    return Refused("ACTIVITY_LEASE_LOST", message, "stop this work; another worker does it", _details(held))


def _details(held: Lease) -> JsonObject:
    return {"holder": held.holder, "lease_until": held.until}
