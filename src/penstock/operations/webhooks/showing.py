"""What a webhook is sent: what whoever made it may see, at the moment that it is sent.

An endpoint remembers who decided what it is sent (`Endpoint.maker`). Fields that policies hide from that principal are
left out of outputs, and an agent is not told of held calls of others. Creating a webhook that is sent outputs is
refused to those from whom something is hidden; this is for policies, keys and groups that change afterwards.

Above it: `app` hands it to the deliveries. Below it: `runs.hidden_fields`, `runs.held_access`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from penstock.base.json import JsonObject
from penstock.governance.principals import Principal
from penstock.operations.gate.context import Services
from penstock.operations.gate.pipeline import Gate
from penstock.operations.permissions.run_principals import recorded_principal
from penstock.operations.runs.held_access import may_see_run
from penstock.operations.runs.hidden_fields import HiddenFields
from penstock.operations.runs.waits import HELD_PREFIX
from penstock.runtime.ports.platform import DeliveryRow, ResourceRow
from penstock.runtime.webhooks.endpoints import endpoint_of

__all__ = ["shown_through"]

# Principals that older rows name and that cannot be looked up: they are shown no output that may have hidden fields.
_UNKNOWN = ("system:", "token:", "pipe:")


def shown_through(gate: Gate) -> Callable[[ResourceRow, DeliveryRow], Awaitable[JsonObject | None]]:
    """Return the function that says what is sent of an event; None if its receiver's maker may not know of it."""
    services, hidden = gate.services, HiddenFields(gate.services)

    async def shown(row: ResourceRow, delivery: DeliveryRow) -> JsonObject | None:
        event, data = delivery.event, delivery.event.get("data")
        if not delivery.run_id or not isinstance(data, dict):
            return event
        is_held = str(data.get("workflow_id")).startswith(HELD_PREFIX)
        if not is_held and ("output" not in data or not hidden.may_hide_in(row.tenant)):
            return event
        maker, run = await _maker(services, row), await services.store.row(delivery.run_id)
        if is_held and run is not None and maker is not None and not await may_see_run(services, maker, run):
            return None
        if "output" not in data:
            return event
        output = await hidden.output_for(row.tenant, maker, run, data["output"])
        return event if output is data["output"] else {**event, "data": {**data, "output": output}}

    return shown


async def _maker(services: Services, row: ResourceRow) -> Principal | None:
    """Return who decided what an endpoint is sent, as they are now; None if that is not known."""
    made = endpoint_of(row).maker
    principal = row.updated_by if made is None else made.get("principal")
    if not isinstance(principal, str) or (made is None and principal.startswith(_UNKNOWN)):
        return None
    return await recorded_principal(services, principal, row.tenant, made or {})
