"""The MCP methods of subscriptions: `subscriptions/listen` of the newest era, `resources/subscribe` of the older one.

In the newest era a client says what it wants to be notified of and gets it on the response stream of that request:
first what was granted, then changes, and a result when the server ends it. In the handshake era a session is notified
of its lists from the moment it is initialized, and of the resources it subscribes to, on its standalone stream.

`changes` finds what changed; this module sends it.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import nullcontext
from typing import Any

import mcp_types as types
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY

from penstock.base import limits
from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject, JsonValue
from penstock.mcp_surface.callers import Caller, ProtocolFault
from penstock.mcp_surface.endpoint import not_in_flight
from penstock.mcp_surface.eras.clients import kinds_of, takes_tasks
from penstock.mcp_surface.eras.sdk_internals import ResumableTransport, connection_of, notify, session_of
from penstock.mcp_surface.handlers import CallerOf, Context, Handler
from penstock.mcp_surface.methods import LISTEN
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
from penstock.mcp_surface.wire.codes import INVALID_PARAMS, RESOURCE_NOT_FOUND
from penstock.operations.gate.pipeline import Gate

__all__ = ["SubscriptionMethods"]

_LOGGER = logging.getLogger("penstock.mcp")
_NOTIFIER = "penstock.notifier"
_TASK_IDS = "taskIds"
# A task is not sent again if only these members differ.
_FLEETING = ("lastUpdatedAt", "resultType")


def _notification(change: ListChanged | ResourceUpdated) -> tuple[str, JsonObject]:
    match change:
        case ListChanged(kind=kind):
            return f"notifications/{kind}/list_changed", {}
        case ResourceUpdated(uri=uri):
            return "notifications/resources/updated", {"uri": uri}


class SubscriptionMethods:
    """Subscribes clients to changes, and notifies them."""

    def __init__(self, gate: Gate, changes: ChangeWatcher, tasks: Tasks, caller_of: CallerOf) -> None:
        self._gate = gate
        self._changes = changes
        self._tasks = tasks
        self._caller_of = caller_of

    def handlers(self) -> list[Handler]:
        """Return the handler of each method."""
        return [
            Handler(LISTEN, types.SubscriptionsListenRequestParams, self._listen),
            Handler("resources/subscribe", types.SubscribeRequestParams, self._subscribe),
            Handler("resources/unsubscribe", types.UnsubscribeRequestParams, self._unsubscribe),
        ]

    # --- the newest era --------------------------------------------------------------------------

    async def _listen(self, context: Context, params: types.SubscriptionsListenRequestParams) -> Any:
        """Notify the client until it disconnects, its key is revoked or the server stops."""
        if context.request_id is None:
            raise MCPError(code=types.INVALID_REQUEST, message="subscriptions/listen requires a request id")
        caller, services = self._caller_of(context), self._gate.services
        chosen = services.limits
        services.open_streams.take(caller.principal, at_most=chosen.streams_max, of_one=chosen.streams_per_key)
        request = context.request
        try:
            # A listener does not count as a request in flight, but as a stream.
            with not_in_flight(request.scope) if request is not None else nullcontext():
                await _ListenStream(self._gate, self._changes, self._tasks, context, caller).run(params.notifications)
        finally:
            services.open_streams.give_back(caller.principal)
        return types.SubscriptionsListenResult(_meta={SUBSCRIPTION_ID_META_KEY: context.request_id})

    # --- the handshake era -----------------------------------------------------------------------

    async def before_session(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Middleware: note the lists before a session begins, because whatever the client reads later is newer."""
        connection = connection_of(ctx)
        if ctx.method == "initialize" and connection.has_standalone_channel:
            try:
                await self._notifier(connection, ctx)
            except PenstockError as error:
                _LOGGER.warning("a session begins that will not hear of changes: %s", error.code)
                connection.state.pop(_NOTIFIER, None)
        return await call_next(ctx)

    async def initialized(self, context: Context, params: Any) -> None:
        """Start notifying the session of its lists."""
        opening: asyncio.Future[_SessionNotifier] | None = connection_of(context).state.get(_NOTIFIER)
        if opening is not None:
            (await opening).wake()

    async def _subscribe(self, context: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        """Notify the session when a resource changes."""
        connection, uri = connection_of(context), str(params.uri)
        if not connection.has_standalone_channel:
            message = "This needs a session, and the server does not know yours: initialize again, then subscribe"
            raise MCPError(code=types.INVALID_REQUEST, message=message)
        notifier = await self._notifier(connection, context)
        if not await self._changes.add_address(notifier.subscription, uri):
            raise MCPError(code=RESOURCE_NOT_FOUND, message=f"Resource not found: {uri[:200]}", data={"uri": uri[:200]})
        return types.EmptyResult()

    async def _unsubscribe(self, context: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        """Stop notifying of a resource; one that was not subscribed to is not an error."""
        opening: asyncio.Future[_SessionNotifier] | None = connection_of(context).state.get(_NOTIFIER)
        if opening is not None:
            self._changes.remove_address((await opening).subscription, str(params.uri))
        return types.EmptyResult()

    async def _notifier(self, connection: Connection, context: Context) -> _SessionNotifier:
        """Return the notifier of a session, created by whichever request needs it first."""
        opening: asyncio.Future[_SessionNotifier] | None = connection.state.get(_NOTIFIER)
        if opening is None:
            opening = asyncio.ensure_future(self._begun(connection, context))
            connection.state[_NOTIFIER] = opening
        return await asyncio.shield(opening)

    async def _begun(self, connection: Connection, context: Context) -> _SessionNotifier:
        notifier = _SessionNotifier(connection, session_of(context))
        notifier.begin(await self._changes.open(self._caller_of(context), LISTS, notifier.wake))
        connection.exit_stack.callback(notifier.stop)
        connection.exit_stack.callback(self._changes.close, notifier.subscription)
        return notifier


class _SessionNotifier:
    """Notifies one session. Its task runs only while there is something to send and a stream to send it on."""

    subscription: Subscription

    def __init__(self, connection: Connection, session: ResumableTransport | None) -> None:
        self._connection = connection
        self._session = session
        if session is not None:
            session.on_listen = self.wake
        self._sending: asyncio.Task[None] | None = None
        self._begun = False

    def begin(self, subscription: Subscription) -> None:
        """Start with a subscription; the client may have opened its stream before."""
        self.subscription, self._begun = subscription, True
        self.wake()

    def wake(self) -> None:
        """Send, if there is something to send and a stream to send it on."""
        if self._begun and self._sending is None and self._is_listened_to():
            self._sending = asyncio.ensure_future(self._send())

    def _is_listened_to(self) -> bool:
        """Return whether the client reads: over a pipe once initialized, over HTTP once it has opened a stream."""
        return self._connection.initialized.is_set() and (self._session is None or self._session.is_listened_to)

    async def _send(self) -> None:
        try:
            while not self.subscription.ended and self._is_listened_to() and (changes := self.subscription.take()):
                for change in changes:
                    if not isinstance(change, TaskChanged):
                        await self._connection.notify(*_notification(change))
        finally:
            self._sending = None

    def stop(self) -> None:
        """Stop sending."""
        if self._sending is not None:
            self._sending.cancel()


class _ListenStream:
    """One `subscriptions/listen` stream."""

    def __init__(self, gate: Gate, changes: ChangeWatcher, tasks: Tasks, context: Context, caller: Caller) -> None:
        self._gate = gate
        self._changes = changes
        self._tasks = tasks
        self._context = context
        self._caller = caller
        self._meta: JsonObject = {SUBSCRIPTION_ID_META_KEY: context.request_id}
        self._arrived = asyncio.Event()
        self._sent: dict[str, JsonObject] = {}

    async def run(self, wanted: types.SubscriptionFilter) -> None:
        """Send what is wanted and allowed, until the subscription ends."""
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
                    await self._send_change(subscription, change)
                await self._arrived.wait()
                self._arrived.clear()
        finally:
            self._changes.close(subscription)

    async def _granted(self, subscription: Subscription, wanted: types.SubscriptionFilter) -> JsonObject:
        """Subscribe to the resources and tasks that exist for this caller, and return them; others are left out."""
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
        """Return the tasks that the client wants; None if it does not support tasks."""
        named = (wanted.model_extra or {}).get(_TASK_IDS)
        if named is None or not takes_tasks(self._context):
            return None
        if not isinstance(named, list) or not all(isinstance(task_id, str) for task_id in named):
            raise ProtocolFault(INVALID_PARAMS, f"{_TASK_IDS} must be a list of texts")
        return list(dict.fromkeys(named))

    async def _send_change(self, subscription: Subscription, change: Change) -> None:
        match change:
            case ListChanged() | ResourceUpdated():
                await self._notify(*_notification(change))
            case TaskChanged(task_id=task_id):
                await self._send_task(subscription, task_id)

    async def _send_task(self, subscription: Subscription, task_id: str) -> None:
        caller = self._caller
        try:
            await self._gate.recheck(
                caller.principal, surface="mcp", request_id=caller.request_id, remote=caller.remote
            )
            task = await self._tasks.get(caller, task_id, kinds_of(self._context))
        except ProtocolFault:
            return  # the task is gone
        except PenstockError as error:
            _LOGGER.info("cannot notify about a task at the moment: %s", error.code)
            again = limits.EXPOSED_REREAD_MS / 1000
            asyncio.get_running_loop().call_later(again, subscription.put, TaskChanged(task_id))
            return
        lasting = {name: value for name, value in task.items() if name not in _FLEETING}
        if self._sent.get(task_id) != lasting:
            self._sent[task_id] = lasting
            shown = {name: value for name, value in task.items() if name != "resultType"}
            await self._notify("notifications/tasks", shown)

    async def _notify(self, method: str, params: JsonObject) -> None:
        await notify(self._context, method, {**params, "_meta": self._meta})
