"""Calls of nodes that nobody waits for any more.

A call that a node made may be a run of its own: a workflow that it started, or a call that waits for approval. If the
run of the node was cancelled, timed out or went another way, that run is cancelled, too: nobody needs its result, and
nobody should be asked to approve it.

Above it: the nodes that call through the gate. Below it: `execution.cancel`, through the gate.
"""

from __future__ import annotations

from penstock.base.errors import PenstockError
from penstock.base.ids import id_for_callers
from penstock.base.json import JsonObject
from penstock.engine.transitions import Phase
from penstock.operations.gate.internal_callers import internal_call
from penstock.operations.gate.pipeline import Gate
from penstock.operations.permissions.run_principals import run_caller
from penstock.runtime.activities.performing import ActivityCall

__all__ = ["abandon_call"]

_CANCEL, _CANCEL_SCOPE = "execution.cancel", "execution:control"


async def abandon_call(gate: Gate, call: ActivityCall, run_id: str) -> None:
    """Cancel the run of a call that its node does not wait for any more. A process that stops changes nothing."""
    state = await gate.services.host.read(call.run_id)
    visit = (call.activity.node_id, call.activity.visit)
    if state is None or any(item.key == visit and item.phase is Phase.REQUESTED for item in state.activations()):
        return
    arguments: JsonObject = {
        "execution_id": id_for_callers(call.tenant, run_id),
        "reason": f"the run {id_for_callers(call.tenant, call.run_id)} that called it needs it no more",
    }
    try:
        await internal_call(gate, run_caller(call.tenant, call.principal, _CANCEL_SCOPE), _CANCEL, arguments)
    except PenstockError:
        return  # it has ended meanwhile
