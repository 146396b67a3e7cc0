"""What a webhook is sent: what its maker may see, at the moment that it is sent.

An endpoint remembers who decided what it is sent (`Endpoint.maker`). Fields that policies hide from that principal are
left out of outputs, and an agent is not told of held calls of others. Creating a webhook that is sent outputs is
refused to those from whom something is hidden; this is for policies, keys and groups that change afterwards. The
receiver of one run gets what `execution.wait` returns to the caller who set it, at that moment; that a call of it waits
for approval only if they may see that call.

Above it: `app` hands it to the deliveries. Below it: `runs.hidden_fields`, `runs.held_access`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Final, TypeAlias

from penstock.base.errors import Denied, NotFound, Unavailable
from penstock.base.ids import id_for_callers, id_in_tenant
from penstock.base.json import JsonObject, object_or_empty
from penstock.governance.principals import Principal
from penstock.operations.gate.context import Services
from penstock.operations.gate.internal_callers import internal_call
from penstock.operations.gate.pipeline import Gate
from penstock.operations.permissions.run_principals import recorded_principal
from penstock.operations.runs.held_access import may_see_run
from penstock.operations.runs.held_calls import HELD_LABEL, seals_of
from penstock.operations.runs.hidden_fields import HiddenFields
from penstock.operations.runs.results import ExecutionResult
from penstock.operations.runs.starting import CALLER_LABEL
from penstock.operations.runs.waits import HELD_PREFIX
from penstock.runtime.ports.platform import DeliveryRow, ResourceRow
from penstock.runtime.ports.runs import RunRow
from penstock.runtime.webhooks.dispatcher import ShownEvent
from penstock.runtime.webhooks.endpoints import Notification, endpoint_of
from penstock.runtime.webhooks.events import HELD_EVENT

__all__ = ["Format", "held_caller", "shown_through"]

_WAIT: Final = "execution.wait"
_ENDED: Final = ("completed", "failed", "cancelled")
_UNREADABLE: Final = "SECRET_ANSWER_UNREADABLE"

# Principals that older rows name and that cannot be looked up: they are shown no output that may have hidden fields.
_UNKNOWN = ("system:", "token:", "pipe:")


Shown: TypeAlias = Callable[[ResourceRow, DeliveryRow], Awaitable[ShownEvent | None]]
Format: TypeAlias = Callable[[ExecutionResult], JsonObject]
"""Writes how a run stands in the words of a protocol."""


def shown_through(gate: Gate, formats: Mapping[str, Format] | None = None) -> Shown:
    """Return the function that says what is sent of an event; None if its receiver's maker may not know of it.

    `formats` are the protocols of notifications, by name.
    """
    services, hidden = gate.services, HiddenFields(gate.services)

    async def shown(row: ResourceRow, delivery: DeliveryRow) -> ShownEvent | None:
        notification = endpoint_of(row).notification
        if notification is not None:
            told = await _told(gate, row, notification, formats or {})
            is_about_held = delivery.event.get("type") == HELD_EVENT
            return replace(told[0], is_withheld=is_about_held and not told[1]) if told is not None else None
        content = await _event_for(services, hidden, row, delivery)
        return None if content is None else ShownEvent(content=content)

    return shown


async def _event_for(
    services: Services, hidden: HiddenFields, row: ResourceRow, delivery: DeliveryRow
) -> JsonObject | None:
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


def held_caller(row: RunRow) -> str | None:
    """Return the run whose call a run holds for approval; None for any other run."""
    caller = row.labels.get(CALLER_LABEL) if HELD_LABEL in row.labels else None
    return None if caller is None else id_in_tenant(row.tenant, caller)


async def _told(
    gate: Gate, row: ResourceRow, notification: Notification, formats: Mapping[str, Format]
) -> tuple[ShownEvent, bool] | None:
    """Return the current status of a run, as its reader may see it, and whether calls of it wait for approval.

    None if they may not see it, or not any more.
    """
    services = gate.services
    maker, written = await _maker(services, row), formats.get(notification.format)
    if maker is None or written is None or not await services.still_valid(maker):
        return None
    execution_id = id_for_callers(row.tenant, notification.run_id)
    try:
        result = await internal_call(gate, maker, _WAIT, {"execution_id": execution_id, "wait_seconds": 0})
        headers = await _headers(services, row.tenant, notification)
    except (Denied, NotFound, Unavailable) as error:
        if isinstance(error, Unavailable) and error.code != _UNREADABLE:
            raise
        return None
    shown = ShownEvent(content=written(result), headers=headers, is_last=result.status in _ENDED)
    return shown, bool(result.held_calls)


async def _headers(services: Services, tenant: str, notification: Notification) -> dict[str, str]:
    headers = {"content-type": "application/json"}
    if notification.sealed is None:
        return headers
    opened = object_or_empty(await seals_of(services).open(tenant, notification.sealed))
    return headers | {name: value for name, value in opened.items() if isinstance(value, str)}


async def _maker(services: Services, row: ResourceRow) -> Principal | None:
    """Return who decided what an endpoint is sent, as they are now; None if that is not known."""
    made = endpoint_of(row).maker
    principal = row.updated_by if made is None else made.get("principal")
    if not isinstance(principal, str) or (made is None and principal.startswith(_UNKNOWN)):
        return None
    return await recorded_principal(services, principal, row.tenant, made or {})
