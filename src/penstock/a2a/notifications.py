"""Push notifications: who gets the updates of a task, and in which format.

A configuration is a notification of an execution (`notification.set`); its token is taken and never given back.
Receivers get what a client would read: the whole task after its end, its status before.

Above it: `methods`; `app.serving` gives the words to the deliveries. Below it: `tasks`, `legacy`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from penstock.a2a.errors import INVALID_PARAMS, RpcError
from penstock.a2a.exchange import Exchange
from penstock.a2a.legacy import task_03
from penstock.a2a.tasks import has_ended, status_update, task_of
from penstock.base.json import JsonObject, object_or_empty

__all__ = ["FORMAT_03", "FORMAT_10", "NOTIFICATIONS", "delete_config", "get_config", "list_configs", "set_config"]

FORMAT_10: Final = "a2a/1.0"
FORMAT_03: Final = "a2a/0.3"


def _news_10(result: Any) -> JsonObject:
    found = msgspec.to_builtins(result)
    return {"task": task_of(found)} if has_ended(found) else status_update(found)


def _news_03(result: Any) -> JsonObject:
    return task_03(task_of(msgspec.to_builtins(result)))


NOTIFICATIONS: Final[dict[str, Callable[[Any], JsonObject]]] = {FORMAT_10: _news_10, FORMAT_03: _news_03}
"""The format of notifications, by version of the protocol."""


async def set_config(exchange: Exchange, task_id: str, config: JsonObject) -> JsonObject:
    """Set a push notification configuration of a task; without an id, it gets the id of the task."""
    url, token = config.get("url"), config.get("token")
    spoken = FORMAT_03 if exchange.legacy else FORMAT_10
    if not isinstance(url, str) or not url:
        raise _invalid("`url` must be the address that gets the notifications")
    given: JsonObject = {"execution_id": task_id, "notification_id": _id(config, task_id), "url": url, "format": spoken}
    if token:
        given["token"] = token
    authentication = object_or_empty(config.get("authentication"))
    if authentication.get("scheme"):
        if not authentication.get("credentials"):
            raise _invalid("`authentication` needs `credentials`, not only a scheme")
        given["authentication"] = {name: authentication[name] for name in ("scheme", "credentials")}
    return _config(await exchange.call("notification.set", given))


async def get_config(exchange: Exchange, params: JsonObject) -> JsonObject:
    """Return a configuration, without its secrets."""
    return _config(await exchange.call("notification.get", _named(params)))


async def list_configs(exchange: Exchange, params: JsonObject) -> JsonObject:
    """Return the configurations of a task. There are only a few: they fit on one page."""
    found = await exchange.call("notification.list", {"execution_id": _task_id(params)})
    return {"configs": [_config(item) for item in found["items"]], "nextPageToken": ""}


async def delete_config(exchange: Exchange, params: JsonObject) -> JsonObject:
    """Delete a configuration."""
    await exchange.call("notification.delete", _named(params))
    return {}


def _config(view: dict[str, Any]) -> JsonObject:
    return {"id": view["notification_id"], "taskId": view["execution_id"], "url": view["url"]}


def _named(params: JsonObject) -> JsonObject:
    task_id = _task_id(params)
    return {"execution_id": task_id, "notification_id": _id(params, task_id)}


def _task_id(params: JsonObject) -> str:
    found = params.get("taskId")
    if not isinstance(found, str) or not found:
        raise _invalid("`taskId` must be the id of a task")
    return found


def _id(params: JsonObject, task_id: str) -> str:
    found = params.get("id")
    return found if isinstance(found, str) and found else task_id


def _invalid(message: str) -> RpcError:
    return RpcError(INVALID_PARAMS, message, "INVALID_ARGUMENTS", "see the guide to agents")
