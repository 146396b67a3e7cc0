"""Telling clients what changed: `subscriptions/listen` of the newest era, notifications of a session in the older one.

In the newest era a client says what it wants to hear and hears it on the response stream of that request: first what
was granted, then changes, and a result when the server ends it. In the handshake era a session hears of its lists from
the moment it is initialized, and of addresses that it subscribes to, on the stream that it opened for that.

Above it: `server` registers these. Below it: `changes`, `tasks`; the SDK.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any

import mcp_types as types
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY

from penstock.base import limits
from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject, JsonValue
from penstock.mcp_surface.callers import INVALID_PARAMS, Caller, ProtocolFault
from penstock.mcp_surface.endpoint import not_in_flight
from penstock.mcp_surface.eras.clients import kinds_of, takes_tasks
from penstock.mcp_surface.eras.http import connection_of, notify, session_of
from penstock.mcp_surface.eras.resumable_streams import ResumableTransport
from penstock.mcp_surface.subscriptions.changes import (
    LISTS,
    Change,
    ChangeWatcher,
    ListChanged,
    ListKind,
    ResourceUpdated,
    Subscription,
    TaskChanged,
)
from penstock.mcp_surface.tasks.tasks import Tasks
from penstock.operations.gate.pipeline import Gate

__all__ = ["Subscriptions"]

_LOGGER = logging.getLogger("penstock.mcp")
_SPEAKER = "penstock.speaker"
_TASK_IDS = "taskIds"
# What is not told of a task again when nothing else about it is different.
_FLEETING = ("lastUpdatedAt", "resultType")

Context = ServerRequestContext[Any, Any]
Notify = Callable[[str, dict[str, Any]], Awaitable[None]]


def _notification(change: ListChanged | ResourceUpdated) -> tuple[str, JsonObject]:
    match change:
        case ListChanged(kind=kind):
            return f"notifications/{kind}/list_changed", {}
        case ResourceUpdated(uri=uri):
            return "notifications/resources/updated", {"uri": uri}


class Subscriptions:
    """The methods."""

    def __init__(
        self, gate: Gate, changes: ChangeWatcher, tasks: Tasks, caller_of: Callable[[Context], Caller]
    ) -> None:
        self._gate = gate
        self._changes = changes
        self._tasks = tasks
        self._caller_of = caller_of

    # --- the newest era --------------------------------------------------------------------------

    async def listen(self, context: Context, params: types.SubscriptionsListenRequestParams) -> Any:
        """Tell until the client leaves, its key is revoked or the server stops."""
        if context.request_id is None:
            raise MCPError(code=types.INVALID_REQUEST, message="subscriptions/listen requires a request id")
        caller, services = self._caller_of(context), self._gate.services
        chosen = services.limits
        services.open_streams.take(caller.principal.id, at_most=chosen.streams_max, of_one=chosen.streams_per_key)
        request = context.request
        try:
            # Who only listens is at no work, and is counted where streams are.
            with not_in_flight(request.scope) if request is not None else nullcontext():
                await _ListenStream(self._gate, self._changes, self._tasks, context, caller).told(params.notifications)
        finally:
            services.open_streams.give_back(caller.principal.id)
        return types.SubscriptionsListenResult(_meta={SUBSCRIPTION_ID_META_KEY: context.request_id})

    # --- the handshake era -----------------------------------------------------------------------

    async def begun(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Before a session begins, look how its lists are: whatever the client is shown afterwards is newer."""
        connection = connection_of(ctx)
        if ctx.method == "initialize" and connection.has_standalone_channel:
            try:
                await self._speaker(connection, ctx)
            except PenstockError as error:
                _LOGGER.warning("a session begins that will not hear of changes: %s", error.code)
                connection.state.pop(_SPEAKER, None)
        return await call_next(ctx)

    async def initialized(self, context: Context, params: Any) -> None:
        """From now on the session hears of its lists."""
        opening: asyncio.Future[_SessionNotifier] | None = connection_of(context).state.get(_SPEAKER)
        if opening is not None:
            (await opening).wake()

    async def subscribe(self, context: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        """Tell the session when something else stands at an address."""
        connection, uri = connection_of(context), str(params.uri)
        if not connection.has_standalone_channel:
            told = "This needs a session, and the server does not know yours: initialize again, then subscribe"
            raise MCPError(code=types.INVALID_REQUEST, message=told)
        speaker = await self._speaker(connection, context)
        if not await self._changes.add_address(speaker.subscription, uri):
            raise MCPError(code=_NOT_FOUND, message=f"Resource not found: {uri[:200]}", data={"uri": uri[:200]})
        return types.EmptyResult()

    async def unsubscribe(self, context: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        """Tell nothing more about an address; one that was not subscribed to is no mistake."""
        opening: asyncio.Future[_SessionNotifier] | None = connection_of(context).state.get(_SPEAKER)
        if opening is not None:
            self._changes.remove_address((await opening).subscription, str(params.uri))
        return types.EmptyResult()

    async def _speaker(self, connection: Connection, context: Context) -> _SessionNotifier:
        """The one that speaks to a session, from whichever request needs it first."""
        opening: asyncio.Future[_SessionNotifier] | None = connection.state.get(_SPEAKER)
        if opening is None:
            opening = asyncio.ensure_future(self._begun(connection, context))
            connection.state[_SPEAKER] = opening
        return await asyncio.shield(opening)

    async def _begun(self, connection: Connection, context: Context) -> _SessionNotifier:
        speaker = _SessionNotifier(connection, session_of(context))
        speaker.begin(await self._changes.open(self._caller_of(context), LISTS, speaker.wake))
        connection.exit_stack.callback(speaker.stop)
        connection.exit_stack.callback(self._changes.close, speaker.subscription)
        return speaker


_NOT_FOUND = -32002


class _SessionNotifier:
    """Speaks to one session: a task only as long as there is something to say, and somebody who listens."""

    subscription: Subscription

    def __init__(self, connection: Connection, session: ResumableTransport | None) -> None:
        self._connection = connection
        self._session = session
        if session is not None:
            session.on_listen = self.wake
        self._speaking: asyncio.Task[None] | None = None
        self._begun = False

    def begin(self, subscription: Subscription) -> None:
        """From now on there is something to speak about; a client may have begun to listen before."""
        self.subscription, self._begun = subscription, True
        self.wake()

    def wake(self) -> None:
        """There is something to say, or somebody who listens."""
        if self._begun and self._speaking is None and self._is_listened_to():
            self._speaking = asyncio.ensure_future(self._speak())

    def _is_listened_to(self) -> bool:
        """Over a pipe the client listens once it is initialized; over HTTP it opens a stream for that."""
        return self._connection.initialized.is_set() and (self._session is None or self._session.is_listened_to)

    async def _speak(self) -> None:
        try:
            while not self.subscription.ended and self._is_listened_to() and (changes := self.subscription.take()):
                for change in changes:
                    if not isinstance(change, TaskChanged):
                        await self._connection.notify(*_notification(change))
        finally:
            self._speaking = None

    def stop(self) -> None:
        """Say nothing more."""
        if self._speaking is not None:
            self._speaking.cancel()


class _ListenStream:
    """One stream of the newest era."""

    def __init__(self, gate: Gate, changes: ChangeWatcher, tasks: Tasks, context: Context, caller: Caller) -> None:
        self._gate = gate
        self._changes = changes
        self._tasks = tasks
        self._context = context
        self._caller = caller
        self._meta: JsonObject = {SUBSCRIPTION_ID_META_KEY: context.request_id}
        self._arrived = asyncio.Event()
        self._told: dict[str, JsonObject] = {}

    async def told(self, wanted: types.SubscriptionFilter) -> None:
        """Tell what is wanted and may be told, until the end."""
        lists: dict[ListKind, bool | None] = {
            "tools": wanted.tools_list_changed,
            "prompts": wanted.prompts_list_changed,
            "resources": wanted.resources_list_changed,
        }
        kinds = [kind for kind in LISTS if lists[kind]]
        subscription = await self._changes.open(self._caller, kinds, self._arrived.set)
        try:
            granted: JsonObject = {f"{kind}ListChanged": True for kind in kinds}
            granted.update(await self._granted(subscription, wanted))
            await self._notify("notifications/subscriptions/acknowledged", {"notifications": granted})
            while not subscription.ended:
                for change in subscription.take():
                    await self._tell(subscription, change)
                await self._arrived.wait()
                self._arrived.clear()
        finally:
            self._changes.close(subscription)

    async def _granted(self, subscription: Subscription, wanted: types.SubscriptionFilter) -> JsonObject:
        """Addresses and tasks that there are for this caller; others are left out, as if there were none."""
        addresses = list(dict.fromkeys(wanted.resource_subscriptions or ()))
        task_ids = self._task_ids(wanted)
        self._changes.refuse_more(subscription, len(addresses) + len(task_ids or ()))
        granted: JsonObject = {}
        uris: list[JsonValue] = [uri for uri in addresses if await self._changes.add_address(subscription, uri)]
        if uris:
            granted["resourceSubscriptions"] = uris
        if task_ids is not None:
            granted[_TASK_IDS] = [name for name in task_ids if await self._changes.add_task(subscription, name)]
        return granted

    def _task_ids(self, wanted: types.SubscriptionFilter) -> list[str] | None:
        """The tasks that are wanted, by a client that takes tasks."""
        named = (wanted.model_extra or {}).get(_TASK_IDS)
        if named is None or not takes_tasks(self._context):
            return None
        if not isinstance(named, list) or not all(isinstance(task_id, str) for task_id in named):
            raise ProtocolFault(INVALID_PARAMS, f"{_TASK_IDS} must be a list of texts")
        return list(dict.fromkeys(named))

    async def _tell(self, subscription: Subscription, change: Change) -> None:
        match change:
            case ListChanged() | ResourceUpdated():
                await self._notify(*_notification(change))
            case TaskChanged(task_id=task_id):
                await self._tell_task(subscription, task_id)

    async def _tell_task(self, subscription: Subscription, task_id: str) -> None:
        caller = self._caller
        try:
            await self._gate.recheck(
                caller.principal, surface="mcp", request_id=caller.request_id, remote=caller.remote
            )
            task = await self._tasks.get(caller, task_id, kinds_of(self._context))
        except ProtocolFault:
            return  # it is gone
        except PenstockError as error:
            _LOGGER.info("a task cannot be told just now: %s", error.code)
            again = limits.EXPOSED_REREAD_MS / 1000
            asyncio.get_running_loop().call_later(again, subscription.put, TaskChanged(task_id))
            return
        lasting = {name: value for name, value in task.items() if name not in _FLEETING}
        if self._told.get(task_id) != lasting:
            self._told[task_id] = lasting
            told = {name: value for name, value in task.items() if name != "resultType"}
            await self._notify("notifications/tasks", told)

    async def _notify(self, method: str, params: JsonObject) -> None:
        await notify(self._context, method, {**params, "_meta": self._meta})
