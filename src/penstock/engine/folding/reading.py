"""Read records while folding: find the activation a record is about, and check the transition.

Above it: the `evolve` modules. Below it: `state`, `transitions`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import msgspec

from penstock.base.encoding import SafeEncoder
from penstock.base.errors import CorruptHistory
from penstock.base.json import JsonValue
from penstock.engine.records import Body, Record, VisitBody, events
from penstock.engine.state import Activation, BufferedSignal, Failure, RunState, Scope
from penstock.engine.transitions import ACTIVATION_TRANSITIONS, Phase

__all__ = [
    "Handler",
    "corrupt",
    "failure_of",
    "located",
    "moved",
    "on",
    "secrets_of",
    "signal_of",
    "size_of",
]

B = TypeVar("B", bound=Body)
Handler: TypeAlias = Callable[[RunState, Record, Any], None]

_ENCODER = SafeEncoder()


def on(kind: type[B], handler: Callable[[RunState, Record, B], None]) -> tuple[type[Body], Handler]:
    """Return one row of the table of handlers."""
    return kind, handler


def failure_of(
    code: str | None,
    message: JsonValue,
    *,
    reason: str,
    activation: Activation | None = None,
    details: JsonValue = None,
) -> Failure:
    """Build a failure from the fields of a record."""
    return Failure(
        code=code or "FAILED",
        message=str(message or ""),
        reason=reason,
        node_id=None if activation is None else activation.node_id,
        visit=None if activation is None else activation.visit,
        details=details,
    )


def corrupt(record: Record, why: str) -> CorruptHistory:
    """Return the error for a record that cannot follow the records before it."""
    return CorruptHistory("HISTORY_IMPOSSIBLE", f"row {record.seq} ({record.name}) {why}")


def located(draft: RunState, record: Record, body: VisitBody) -> tuple[Scope, Activation]:
    """Return the scope and the activation that a record names."""
    node_id, visit = body.node_id, body.visit
    key = (node_id, draft.visits.get(node_id, 0) if visit is None else visit)
    serial = draft.active.get(key)
    scope = draft.scopes.get(serial) if serial is not None else None
    if scope is None or scope.activation is None:
        raise corrupt(record, f"names {node_id} (visit {key[1]}), which is not active")
    return scope, scope.activation


def moved(activation: Activation, record: Record, body: object, variant: str = "") -> Phase:
    """Return the next phase; raise `CorruptHistory` if the record cannot follow the current one."""
    allowed, phase = ACTIVATION_TRANSITIONS[type(body), variant]  # type: ignore[index]  # every body is of a record
    if activation.phase not in allowed:
        raise corrupt(record, f"cannot follow phase {activation.phase} of {activation.node_id}")
    return phase


def secrets_of(value: JsonValue) -> dict[str, str] | None:
    """Return secret references by path, or None."""
    return {key: str(text) for key, text in value.items()} if isinstance(value, dict) else None


def signal_of(body: events.SignalBuffered) -> BufferedSignal:
    """Return a signal that was buffered."""
    return BufferedSignal(name=str(body.signal_name), payload=body.payload, signal_id=body.signal_id)


def size_of(content: object) -> int:
    """Return the size of a payload in bytes of JSON."""
    if type(content) is msgspec.Raw:
        return len(content)
    try:
        return len(_ENCODER.encode(content))
    except UnicodeEncodeError:  # a lone surrogate, which only an escape can encode
        return len(json.dumps(msgspec.to_builtins(content), separators=(",", ":")))
