"""How a run starts a child: which version runs, what the child inherits, and who may be asked first.

Above it: hosts, the driver, the operation that asks policies. Below it: the host port.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec

from penstock.base.json import JsonObject
from penstock.definitions.model import Workflow
from penstock.definitions.reached import workflow_key
from penstock.engine import inputs
from penstock.engine.approved import CHANGED_CODE, approved_reach
from penstock.engine.effects import StartChild
from penstock.engine.outcomes import Refused
from penstock.engine.state import RunState
from penstock.runtime.ports.host import RunHost, RunSnapshot

__all__ = ["ChildStarted", "ChildStarter", "child_start", "child_workflow"]


class ChildStarted(msgspec.Struct, frozen=True):
    """The child was started, or exists already."""


ChildStarter: TypeAlias = Callable[[RunSnapshot, StartChild], Awaitable[Refused | ChildStarted | None]]
"""Starts a child where somebody has to be asked first; None if nobody has, and the host starts it."""


async def child_workflow(host: RunHost, parent: RunState, effect: StartChild) -> Workflow | Refused:
    """Return the version that a child runs: the one approved with its parent, the pinned one, or the newest."""
    tenant, approved = parent.tenant, approved_reach(parent.starter)
    if approved is not None:
        return await _approved_workflow(host, tenant, effect, approved)
    workflow = await host.workflow_named(effect.workflow_ref, tenant=tenant)
    if workflow is None:
        return Refused("WORKFLOW_NOT_FOUND", f"there is no workflow {effect.workflow_ref}")
    if effect.version_pin in (None, workflow.hash):
        return workflow
    pinned = await host.workflow(str(effect.version_pin), tenant=tenant)
    if pinned is None:
        return Refused("VERSION_PIN_MISMATCH", f"the pinned version of {effect.workflow_ref} is not known")
    return pinned


async def _approved_workflow(
    host: RunHost, tenant: str, effect: StartChild, approved: JsonObject
) -> Workflow | Refused:
    """Return the version that people saw when they approved the run; a child that was not there then is refused."""
    version = approved.get(workflow_key(effect.workflow_ref, effect.version_pin))
    workflow = await host.workflow(version, tenant=tenant) if isinstance(version, str) else None
    if workflow is None or workflow.name != effect.workflow_ref:
        message = f"the run was approved without a workflow {effect.workflow_ref}, or that version is gone"
        return Refused(CHANGED_CODE, message, hint="start the run again, so that it is approved as it is now")
    return workflow


def child_start(parent: RunState, effect: StartChild, at: int) -> inputs.StartRun:
    """Return the start of a child, which inherits the principal and the trust of its parent."""
    return inputs.StartRun(
        at=at,
        run_id=effect.child_id,
        input=effect.input,
        mode=parent.mode,
        tenant=parent.tenant,
        parent_run_id=parent.run_id,
        depth=effect.depth,
        client_kinds=parent.client_kinds,
        started_by=parent.started_by,
        starter=parent.starter,
        untrusted=parent.untrusted,
    )
