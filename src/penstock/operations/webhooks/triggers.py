"""Operations on webhooks that are received: which addresses start or signal workflows.

A trigger is declared in the document of its workflow, and changes with it. Receiving is in `receiver`.

Above it: the catalogue. Below it: the store's definitions, `table`.
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import msgspec
from msgspec import Meta

from penstock.base.errors import Denied
from penstock.operations.catalogue.capability import Capability, Example, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.gate.context import Context, Services
from penstock.operations.permissions.makers import trigger_scopes
from penstock.operations.webhooks.table import Hook, hooks_of
from penstock.runtime.ports.runs import DefinitionRow

__all__ = ["OPERATIONS"]


class ListTriggers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which triggers."""

    workflow_id: Annotated[
        Annotated[str, Meta(min_length=1, max_length=128)] | None, Meta(description="Only those of this workflow.")
    ] = None


class TriggerView(msgspec.Struct, frozen=True, kw_only=True):
    """An address that starts or signals a workflow. `problem` says why it does not, if it does not."""

    id: str
    workflow_id: str
    enabled: bool
    method: str
    url: str
    action: str
    signal: str | None
    strategy: str
    secret: str | None
    problem: str | None


class TriggerList(msgspec.Struct, frozen=True, kw_only=True):
    """Triggers in order of their workflows."""

    items: list[TriggerView]


@operation(
    "trigger.list",
    route=Route(method="GET", path="/triggers", query=("workflow_id",)),
    scopes=("workflow:read",),
    reads=True,
    examples=(Example(arguments={"workflow_id": "incident_response"}),),
)
async def trigger_list(context: Context, given: ListTriggers) -> TriggerList:
    """List the webhooks that start or signal workflows.

    Returns the addresses to give to senders, how requests are signed, and the name of the secret; never the secret
    itself. webhook.list has the addresses that events are sent to, schedule.list the schedules.
    """
    services = context.services
    rows = await services.store.definitions.list_newest(tenant=context.tenant)
    hooks = [hook for row in rows for hook in hooks_of(row)]
    wanted = [hook for hook in hooks if given.workflow_id in (None, hook.workflow_name)]
    denied = {
        row.name: await _denied(services, row) for row in rows if row.name in {hook.workflow_name for hook in wanted}
    }
    taken = Counter((hook.trigger.method, hook.trigger.path) for hook in hooks if hook.trigger.enabled)
    return TriggerList(
        items=[
            _view(services, hook, denied[hook.workflow_name], taken[hook.trigger.method, hook.trigger.path] > 1)
            for hook in wanted
        ]
    )


async def _denied(services: Services, row: DefinitionRow) -> str | None:
    """Return why the triggers of a workflow may not act for the principal that stored it; None if they may."""
    try:
        await trigger_scopes(services, row, starts=True)
    except Denied as error:
        return error.message
    return None


def _view(services: Services, hook: Hook, denied: str | None, shared: bool) -> TriggerView:
    trigger, problem = hook.trigger, denied
    if not trigger.is_signed and not services.webhooks.allow_unsigned:
        problem = "it takes unsigned requests, which this server does not allow"
    elif shared and trigger.enabled:
        problem = "several workflows have this address; requests to it are refused"
    return TriggerView(
        id=trigger.trigger_id,
        workflow_id=hook.workflow_name,
        enabled=trigger.enabled,
        method=trigger.method,
        url=services.webhooks.address(hook.address),
        action=trigger.action,
        signal=trigger.signal,
        strategy=trigger.strategy if trigger.is_signed else "none",
        secret=trigger.secret,
        problem=problem,
    )


OPERATIONS: tuple[Capability, ...] = (trigger_list,)
