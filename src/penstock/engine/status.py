"""The status of a run in words: what it is doing, or what it waits for.

Two vocabularies are derived from one state: ours (`run_status`, see the glossary) and the published phase
(`published_phase`). A run that waits for several things at once reports the one that a person can help with first.

Above it: views and the control plane. It changes nothing.
"""

from __future__ import annotations

from penstock.engine.state import Activation, RunState
from penstock.engine.transitions import Phase, RunStatus

__all__ = ["current_activation", "published_phase", "run_status"]

# What a waiting run reports, most helpful first.
_WAITS: tuple[tuple[Phase, str, str], ...] = (
    (Phase.INTERRUPTED, "waiting_input", "interrupted"),
    (Phase.ASKING, "waiting_input", "interrupted"),
    (Phase.OUTCOME_UNKNOWN, "waiting_decision", "awaiting_activity"),
    (Phase.REQUESTED, "waiting_activity", "awaiting_activity"),
    (Phase.AWAITING_SIGNAL, "waiting_signal", "awaiting_signal"),
    (Phase.CHILD_RUNNING, "waiting_child", "running"),
    (Phase.SLEEPING, "waiting_timer", "running"),
    (Phase.BACKING_OFF, "waiting_timer", "running"),
    (Phase.EMITTING, "running", "running"),
)

_RANKS = {phase: rank for rank, (phase, _, _) in enumerate(_WAITS)}


def run_status(state: RunState) -> str:
    """Return our word for the status of a run."""
    if state.status is not RunStatus.RUNNING:
        return str(state.status)
    if state.paused:
        return "paused"
    if state.ending is not None:
        return "cancelling" if state.ending.outcome == "cancelled" else "compensating"
    found = _wait(state)
    return found[1] if found else "running"


def published_phase(state: RunState) -> str:
    """Return the published word for the phase of a run."""
    if state.status is not RunStatus.RUNNING:
        return "running" if state.status is RunStatus.PENDING else str(state.status)
    found = _wait(state)
    return found[2] if found else "running"


def current_activation(state: RunState) -> Activation | None:
    """Return the activation that the status describes."""
    found = _wait(state)
    return found[0] if found else None


def _wait(state: RunState) -> tuple[Activation, str, str] | None:
    waiting = [activation for activation in state.activations() if activation.phase in _RANKS]
    if not waiting:
        return None
    activation = min(waiting, key=_rank) if len(waiting) > 1 else waiting[0]
    _, ours, published = _WAITS[_rank(activation)]
    return activation, ours, published


def _rank(activation: Activation) -> int:
    return _RANKS[activation.phase]
