"""Reading records while folding them: finding the activation a record is about, and checking the transition.

Above it: the `evolve` modules. Below it: `state`, `transitions`.
"""

from __future__ import annotations

import json

import msgspec

from penstock.base.errors import CorruptHistory
from penstock.base.json import JsonObject, JsonValue
from penstock.engine.records import Record
from penstock.engine.state import Activation, BufferedSignal, Failure, RunState, Scope
from penstock.engine.transitions import ACTIVATION_TRANSITIONS, Phase

__all__ = [
    "corrupt",
    "failure_of",
    "instant_of",
    "located",
    "moved",
    "number_of",
    "secrets_of",
    "signal_of",
    "size_of",
    "text_of",
]

_ENCODER = msgspec.json.Encoder()


def failure_of(payload: JsonObject, *, reason: str, node_id: str | None, visit: int | None) -> Failure:
    """A failure from the keys that records carry."""
    message = payload.get("message", payload.get("error"))
    return Failure(
        code=str(payload.get("code") or "FAILED"),
        message=str(message or ""),
        reason=str(payload.get("reason") or reason),
        node_id=node_id,
        visit=visit,
        details=payload.get("details"),
    )


def corrupt(record: Record, why: str) -> CorruptHistory:
    """The error for a record that cannot stand where it stands."""
    return CorruptHistory("HISTORY_IMPOSSIBLE", f"row {record.seq} ({record.name}) {why}")


def located(draft: RunState, record: Record) -> tuple[Scope, Activation]:
    """The scope and the activation that a record names."""
    node_id = str(record.payload["nodeId"])
    visit = record.payload.get("visit")
    key = (node_id, visit if isinstance(visit, int) else draft.visits.get(node_id, 0))
    serial = draft.active.get(key)
    scope = draft.scopes.get(serial) if serial is not None else None
    if scope is None or scope.activation is None:
        raise corrupt(record, f"names {node_id} (visit {key[1]}), which is not active")
    return scope, scope.activation


def moved(activation: Activation, record: Record, variant: str = "") -> Phase:
    """The phase that follows, if the record may follow at all."""
    allowed, phase = ACTIVATION_TRANSITIONS[record.name + variant]
    if activation.phase not in allowed:
        raise corrupt(record, f"cannot follow phase {activation.phase} of {activation.node_id}")
    return phase


def instant_of(value: JsonValue) -> int | None:
    """An instant, or None."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def number_of(value: JsonValue, default: int = 0) -> int:
    """A whole number, or the default."""
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def text_of(value: JsonValue) -> str | None:
    """A text, or None."""
    return value if isinstance(value, str) else None


def secrets_of(value: JsonValue) -> dict[str, str] | None:
    """Secret references by place, or None."""
    return {key: str(text) for key, text in value.items()} if isinstance(value, dict) else None


def signal_of(payload: JsonObject) -> BufferedSignal:
    """A signal that nobody took yet, from the keys that records carry."""
    return BufferedSignal(
        name=str(payload.get("signalName")), payload=payload.get("payload"), signal_id=text_of(payload.get("signalId"))
    )


def size_of(payload: JsonValue) -> int:
    """How many bytes a payload has as JSON."""
    try:
        return len(_ENCODER.encode(payload))
    except UnicodeEncodeError:  # half of a surrogate pair, which only an escape can hold
        return len(json.dumps(payload, separators=(",", ":")))
