"""`ListTasks`: the tasks of an agent that the caller may see, a page at a time, those that moved last first.

Above it: `methods`. Below it: `execution.list` finds them, `execution.wait` says what the open ones ask.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any, Final

from penstock.a2a.errors import INVALID_PARAMS, RpcError
from penstock.a2a.exchange import Exchange
from penstock.a2a.tasks import ASKING, ENDED, WORKING, task_of
from penstock.base import limits
from penstock.base.choices import refuse_choice
from penstock.base.errors import NotFound
from penstock.base.json import JsonObject, JsonValue
from penstock.operations.runs.fields import RUN_STATUSES

__all__ = ["list_tasks"]

_OPEN: Final = [status for status in RUN_STATUSES if status not in ENDED]
# A run with another status neither asks nor has calls that wait for approval.
_MAY_ASK: Final = ["waiting_input", "waiting_approval", "waiting_activity", "waiting_child", "compensating"]
_STATUSES: Final[dict[str, list[str]]] = {
    **{state: [status] for status, state in ENDED.items()},
    ASKING: _MAY_ASK,
    WORKING: [status for status in _OPEN if status not in ("waiting_input", "waiting_approval")],
}
_STATES_NEVER_TAKEN: Final = ("TASK_STATE_SUBMITTED", "TASK_STATE_REJECTED", "TASK_STATE_AUTH_REQUIRED")
_STATES: Final = (*_STATUSES, *_STATES_NEVER_TAKEN)
_NO_STATE: Final = f"`status` must be one of {', '.join(_STATES)}"
_UNSPECIFIED: Final = "TASK_STATE_UNSPECIFIED"

Waited = Callable[[str], Awaitable[dict[str, Any]]]


async def list_tasks(exchange: Exchange, params: JsonObject, waited: Waited) -> JsonObject:
    """Return a page of tasks. `waited` returns how the execution of a task stands."""
    size, state = _page_size(params), _state(params)
    context = _text(params, "contextId")
    if state in _STATES_NEVER_TAKEN:
        return _page([], size)
    wanted: JsonObject = {"workflow_id": exchange.agent_id, "order": "updated", "count": True, "limit": size}
    if state is not None:
        wanted["status"] = [*_STATUSES[state]]
    if (after := _after(params)) is not None:
        wanted["updated_after"] = after
    if (token := _text(params, "pageToken")) is not None:
        wanted["cursor"] = token
    if context is not None:
        found = await _only(exchange, context, wanted)
    else:
        found = await exchange.call("execution.list", wanted)
    with_artifacts = params.get("includeArtifacts") is True
    tasks = [await _task(item, waited, with_artifacts=with_artifacts) for item in found["items"]]
    shown: list[JsonValue] = [task for task in tasks if state is None or _has_state(task, state)]
    return _page(shown, size, total=found.get("total") or 0, token=found["next_cursor"])


def _page(tasks: list[JsonValue], size: int, *, total: int = 0, token: str | None = None) -> JsonObject:
    return {"tasks": tasks, "nextPageToken": token or "", "pageSize": size, "totalSize": total}


async def _task(item: dict[str, Any], waited: Waited, *, with_artifacts: bool) -> JsonObject:
    """Return a task of the list. What has ended and is not shown is not read."""
    status = item["status"]
    short = status in ("completed", "cancelled") and not with_artifacts
    result = {"output": None, **item} if short else await waited(str(item["execution_id"]))
    task = task_of(result, at=item["updated_at"])
    if not with_artifacts:
        task.pop("artifacts", None)
    return task


def _has_state(task: JsonObject, state: str) -> bool:
    status = task["status"]
    return isinstance(status, dict) and status.get("state") == state


async def _only(exchange: Exchange, context: str, wanted: JsonObject) -> dict[str, Any]:
    """Return the page of a context: a context is one task, and has its id."""
    found: dict[str, Any] = {"items": [], "next_cursor": None, "total": 0}
    try:
        item = await exchange.call("execution.status", {"execution_id": context})
    except NotFound:
        return found
    after, statuses = wanted.get("updated_after"), wanted.get("status")
    fits = item["workflow_id"] == exchange.agent_id and (not isinstance(statuses, list) or item["status"] in statuses)
    if isinstance(after, str):
        fits = fits and datetime.fromisoformat(item["updated_at"]) > datetime.fromisoformat(after)
    return {**found, "items": [item], "total": 1} if fits and "cursor" not in wanted else found


def _page_size(params: JsonObject) -> int:
    size = params.get("pageSize")
    if size is None:
        return limits.A2A_PAGE_DEFAULT
    if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= limits.A2A_PAGE_MAX:
        raise _invalid(f"`pageSize` must be a number from 1 to {limits.A2A_PAGE_MAX}")
    return size


def _state(params: JsonObject) -> str | None:
    state = params.get("status")
    if state is None or state == _UNSPECIFIED:
        return None
    if not isinstance(state, str) or state not in _STATES:
        raise _invalid(f"`status`: {refuse_choice(state, _STATES)}" if isinstance(state, str) else _NO_STATE)
    return state


def _after(params: JsonObject) -> str | None:
    """Return the instant after which a task has moved. The protocol's own instant is included, ours is not."""
    text = _text(params, "statusTimestampAfter")
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            raise ValueError(text)
        return (moment - timedelta(milliseconds=1)).isoformat()
    except (ValueError, OverflowError):
        raise _invalid("`statusTimestampAfter` must be an instant such as 2026-01-31T09:00:00Z") from None


def _text(params: JsonObject, name: str) -> str | None:
    found = params.get(name)
    if found is not None and not isinstance(found, str):
        raise _invalid(f"`{name}` must be a text")
    return found or None


def _invalid(message: str) -> RpcError:
    return RpcError(INVALID_PARAMS, message, "INVALID_ARGUMENTS", "see the guide to agents")
