"""The status of a run in words: what it is doing, or what it waits for.

Two vocabularies are derived from one state: ours (`run_status`, see the glossary) and the published phase
(`published_phase`). A run that waits for several things at once reports the one that a person can help with first.

Above it: views and the control plane. It changes nothing.
"""

from __future__ import annotations

from penstock.engine.state import Activation, RunState
from penstock.engine.transitions import Phase, RunStatus

__all__ = ["current_activation", "is_status", "published_phase", "run_status"]

# What a waiting run reports, most helpful first.
_WAITS: tuple[tuple[Phase, bool, str, str], ...] = (
    (Phase.INTERRUPTED, False, "waiting_input", "interrupted"),
    (Phase.ASKING, False, "waiting_input", "interrupted"),
    (Phase.INTERRUPTED, True, "waiting_approval", "interrupted"),
    (Phase.OUTCOME_UNKNOWN, False, "waiting_decision", "awaiting_activity"),
    (Phase.REQUESTED, False, "waiting_activity", "awaiting_activity"),
    (Phase.AWAITING_SIGNAL, False, "waiting_signal", "awaiting_signal"),
    (Phase.CHILD_RUNNING, False, "waiting_child", "running"),
    (Phase.SLEEPING, False, "waiting_timer", "running"),
    (Phase.BACKING_OFF, False, "waiting_timer", "running"),
    (Phase.EMITTING, False, "running", "running"),
)
_PHASES = frozenset(phase for phase, _, _, _ in _WAITS)
_RANKS = {(phase, approval): rank for rank, (phase, approval, _, _) in enumerate(_WAITS)}


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


def is_status(wanted: str, found: str) -> bool:
    """Whether a run has the status that the author of a test wants.

    An approval is a question, and was called so before approvals had a status of their own.
    """
    return found in (wanted, "waiting_approval") if wanted == "waiting_input" else found == wanted


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
    waiting = [activation for activation in state.activations() if activation.phase in _PHASES]
    if not waiting:
        return None
    activation = min(waiting, key=_rank) if len(waiting) > 1 else waiting[0]
    _, _, ours, published = _WAITS[_rank(activation)]
    return activation, ours, published


def _rank(activation: Activation) -> int:
    approval = activation.phase is Phase.INTERRUPTED and "approvers" in (activation.external or {})
    return _RANKS[activation.phase, approval]
