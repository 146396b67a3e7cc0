"""Book-keeping of the scope tree: open, close and drop scopes, and track which have a next move.

Above it: `evolve`. Below it: `state`, `transitions`. It reads only the bodies that it is given.
"""

from __future__ import annotations

from msgspec import UNSET
from msgspec.structs import replace

from penstock.engine.records import events, given
from penstock.engine.state import Activation, Failure, IndexedResults, RunState, Scope
from penstock.engine.transitions import READY_PHASES, Phase

__all__ = ["abandon", "book", "close_scope", "drop_bodies", "drop_scope", "open_scope"]


def book(draft: RunState, scope: Scope) -> None:
    """Store a changed scope, and whether the engine has a next move in it."""
    draft.scopes[scope.serial] = scope
    if _has_next_move(draft, scope.activation):
        draft.ready.add(scope.serial)
    else:
        draft.ready.discard(scope.serial)


def _has_next_move(draft: RunState, activation: Activation | None) -> bool:
    if activation is None or activation.phase in READY_PHASES:
        return True
    if activation.phase is Phase.FORKED:
        return activation.frame is not None and activation.frame.ready
    if activation.phase is Phase.AWAITING_SIGNAL and draft.signals:
        name = activation.external.get("signalName") if activation.external else None
        return any(signal.name == name for signal in draft.signals)
    return False


def open_scope(draft: RunState, parent: Scope, activation: Activation, body: events.ScopeOpened) -> None:
    """Open the scope of one branch, item or iteration."""
    frame, index, serial = activation.frame, body.index, body.scope
    if frame is None or index is None or serial is None:
        return
    scope = Scope(
        serial=serial,
        body=body.body or "",
        parent=parent.serial,
        index=index,
        name=body.branch_name or "",
        item_name=body.item_name or "",
        item=frame.items[index] if index < len(frame.items) else None,
        shares_outputs=frame.kind == "loop",
        next=body.entry,
    )
    draft.next_serial = max(draft.next_serial, serial + 1)
    book(draft, scope)
    changed = replace(frame, started=frame.started + 1, open={**frame.open, index: serial})
    book(draft, replace(parent, activation=replace(activation, frame=changed)))


def close_scope(
    draft: RunState,
    parent: Scope,
    activation: Activation,
    body: events.ScopeCompleted | events.ScopeFailed,
    failure: Failure | None,
) -> None:
    """Close a scope that completed or failed, and count it in its frame."""
    frame, index = activation.frame, body.index
    if frame is None or index is None:
        return
    opened = dict(frame.open)
    closed = _forget(draft, opened.pop(index))
    counted = replace(
        frame,
        open=opened,
        completed=frame.completed + (failure is None),
        failed=frame.failed + (failure is not None),
        failure=frame.failure or failure,
    )
    if frame.kind == "loop":
        counted = replace(counted, results=IndexedResults().added(0, given(body.output)))
    elif failure is None or body.output is not UNSET:
        counted = replace(counted, results=frame.results.added(index, given(body.output)))
    if frame.kind == "parallel":
        outputs = {**frame.outputs, index: closed.outputs} if failure is None and closed.outputs else frame.outputs
        sealed = {**frame.sealed, index: closed.sealed} if failure is None and closed.sealed else frame.sealed
        counted = replace(counted, settled=frame.settled | {index}, outputs=outputs, sealed=sealed)
    book(draft, replace(parent, activation=replace(activation, frame=counted)))


def drop_bodies(draft: RunState, serial: int | None) -> None:
    """Drop every scope below one, or all scopes."""
    if serial is None:
        for root in [scope.serial for scope in draft.scopes.values() if scope.parent is None]:
            drop_scope(draft, root)
        return
    activation = draft.scopes[serial].activation
    if activation is not None and activation.frame is not None:
        for inner in tuple(activation.frame.open.values()):
            drop_scope(draft, inner)


def drop_scope(draft: RunState, serial: int) -> None:
    """Drop a scope with everything below it and mark its child run for cancellation."""
    drop_bodies(draft, serial)
    _forget(draft, serial)


def _forget(draft: RunState, serial: int) -> Scope:
    scope = draft.scopes.pop(serial)
    draft.ready.discard(serial)
    activation = scope.activation
    if activation is not None:
        draft.active.pop(activation.key, None)
        abandon(draft, activation)
    return scope


def abandon(draft: RunState, activation: Activation) -> None:
    """Mark what an activation leaves behind for cancellation: its child run, or the task of an agent that asks."""
    asked = activation.dialogue if activation.phase is Phase.ASKING else None
    if asked is not None and asked.resume is not None and "agentId" in (activation.external or {}):
        draft.unanswered = (*draft.unanswered, activation)
    if activation.phase is Phase.CHILD_RUNNING and activation.external is not None:
        child_id = str(activation.external.get("childExecutionId"))
        child = draft.children.get(child_id)
        if child is not None:
            draft.children[child_id] = replace(child, abandoned=True)
