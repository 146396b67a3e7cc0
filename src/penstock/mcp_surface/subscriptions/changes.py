"""What changed, and for whom: lists of tools, prompts and resources, workflows, runs, tasks.

A subscription belongs to one caller and reports only what that caller may see: lists are compared as this caller sees
them, and nobody can subscribe to what they may not read. A change is a level, not an event: something is different now,
read it again. So an undelivered change is kept once, and a slow client costs no memory.

Changes stored by this process are noticed at once. Changes stored by other processes in the same file are noticed by
polling counters of the store, and only while somebody is subscribed.

This module does not import the SDK.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, TypeAlias
from urllib.parse import unquote

from penstock.base import limits
from penstock.base.addresses import normalised_address
from penstock.base.errors import LimitExceeded, NotFound, PenstockError
from penstock.base.json import JsonObject
from penstock.mcp_surface.callers import Caller, call_operation
from penstock.mcp_surface.resources.contents import Contents
from penstock.mcp_surface.tools.registry import ToolRegistry
from penstock.operations.catalogue.exposure import ExposedResource, Exposure, TenantWorkflows
from penstock.operations.gate.pipeline import Gate
from penstock.operations.runs.following import execution_position, follow_execution

__all__ = [
    "LISTS",
    "Change",
    "ChangeWatcher",
    "ListChanged",
    "ListKind",
    "ResourceUpdated",
    "Subscription",
    "TaskChanged",
]

_LOGGER = logging.getLogger("penstock.mcp")
_OWN = re.compile(
    r"penstock://(?:workflows/(?P<workflow>[^/?#\s]{1,600})(?:/versions/(?P<hash>[0-9a-zA-Z:_-]{1,80}))?"
    r"|executions/(?P<execution>[^/?#\s]{1,600})(?:/history|/result)?)"
)
_UNSEEN = ("SCOPE_REQUIRED", "INVALID_ARGUMENTS")
_LIST_OPERATION = "workflow.list"

ListKind: TypeAlias = Literal["tools", "prompts", "resources"]
LISTS: tuple[ListKind, ...] = ("tools", "prompts", "resources")


@dataclass(frozen=True, slots=True)
class ListChanged:
    """The list of tools, prompts or resources changed."""

    kind: ListKind


@dataclass(frozen=True, slots=True)
class ResourceUpdated:
    """A resource changed."""

    uri: str


@dataclass(frozen=True, slots=True)
class TaskChanged:
    """A task may have changed."""

    task_id: str


_Mark: TypeAlias = tuple[Hashable, int]
"""Differs once anything was stored or the catalogue has changed."""
Change: TypeAlias = ListChanged | ResourceUpdated | TaskChanged


@dataclass(frozen=True, slots=True)
class _Followed:
    """A run that a subscription follows, and the changes that it reports for it."""

    task: asyncio.Task[None]
    changes: set[Change]


@dataclass(slots=True, eq=False)
class Subscription:
    """What one client is notified of. `wake` is called when there is something to take, and at the end."""

    caller: Caller
    lists: frozenset[ListKind]
    wake: Callable[[], None]
    seen: dict[ListKind, object] = field(default_factory=dict)
    uris: dict[str, str] = field(default_factory=dict)
    """Addresses, each with the workflow that it depends on; empty for the address of a run."""
    runs: dict[str, _Followed] = field(default_factory=dict)
    left: dict[str, Callable[[], None]] = field(default_factory=dict)
    """Addresses of other servers' resources, each with how to stop following it."""
    ended: bool = False
    _waiting: dict[Change, None] = field(default_factory=dict)

    def put(self, change: Change) -> None:
        """Add a change."""
        self._waiting[change] = None
        self.wake()

    def take(self) -> list[Change]:
        """Return every change that was not delivered yet."""
        taken = list(self._waiting)
        self._waiting.clear()
        return taken

    @property
    def size(self) -> int:
        """How many addresses and tasks it covers."""
        return len(self.uris) + len(self.left) + sum(len(item.changes) for item in self.runs.values())

    def end(self) -> None:
        """End the subscription: report nothing more."""
        self.ended = True
        self.wake()


@dataclass(frozen=True, slots=True)
class _TenantSnapshot:
    """The state of a tenant at the last look."""

    revisions: tuple[int, int]
    """The revisions of the catalogue and of what the tenant exposes."""
    workflows: TenantWorkflows


def _group(subscription: Subscription) -> Hashable:
    """Return the group of a subscription; without policies, all subscriptions of a group see the same lists."""
    caller = subscription.caller
    return caller.principal.scopes, caller.principal.toolset, caller.toolset, subscription.lists


class ChangeWatcher:
    """The subscriptions of a process, and the task that looks for changes."""

    def __init__(self, gate: Gate, registry: ToolRegistry, contents: Contents) -> None:
        self._gate = gate
        self._registry = registry
        self._contents = contents
        self._open: dict[str, set[Subscription]] = {}
        self._tenants: dict[str, _TenantSnapshot] = {}
        """The state of each tenant that has subscribers, at the last look."""
        self._looks = 0
        self._changed: set[str] = set()
        self._arrived = asyncio.Event()
        self._asked_at = 0.0
        """When keys were last checked."""
        self._watching: asyncio.Task[None] | None = None

    # --- subscriptions ---------------------------------------------------------------------------

    async def open(self, caller: Caller, lists: Iterable[ListKind], wake: Callable[[], None]) -> Subscription:
        """Subscribe a caller; later changes are reported relative to the lists as they are now."""
        subscription, tenant = Subscription(caller, frozenset(lists), wake), caller.principal.tenant
        while True:
            looks, mark = self._looks, self._mark()
            exposure = await self._gate.exposed.of(tenant)
            subscription.seen = await self._visible_lists(subscription, exposure)
            if looks == self._looks:
                break
        if tenant not in self._open or self._mark() != mark:
            # Nobody watched this tenant, or something was stored meanwhile: look again, as the cache may be old.
            self._tenant_changed(tenant)
        if tenant not in self._open:
            self._tenants[tenant] = self._snapshot(exposure)
        self._open.setdefault(tenant, set()).add(subscription)
        if self._watching is None:
            self._watching = asyncio.ensure_future(self._watch(mark))
        if self._gate.services.open_streams.ending:
            subscription.end()
        return subscription

    def close(self, subscription: Subscription) -> None:
        """End a subscription."""
        for followed in subscription.runs.values():
            followed.task.cancel()
        subscription.runs.clear()
        for leave in subscription.left.values():
            leave()
        subscription.left.clear()
        tenant = subscription.caller.principal.tenant
        listening = self._open.get(tenant, set())
        listening.discard(subscription)
        if not listening:
            self._open.pop(tenant, None)
            self._tenants.pop(tenant, None)
        if not self._open:
            self._arrived.set()

    async def add_address(self, subscription: Subscription, uri: str) -> bool:
        """Report changes of a resource; False if this caller has no such resource."""
        self.refuse_more(subscription, 1)
        caller, address = subscription.caller, normalised_address(uri)
        if address is None:
            return False
        workflow = await self._exposed_at(caller, address)
        imported = None if workflow is not None else await self._contents.imported_place(caller, uri)
        if imported is not None:
            self._follow(subscription, uri, imported)
            return True
        if workflow is None:
            match = _OWN.fullmatch(address)
            if match is None:
                return False
            if match["execution"] is not None:
                return await self._add_run(subscription, unquote(match["execution"]), ResourceUpdated(uri))
            workflow, version = unquote(match["workflow"]), match["hash"]
            named: JsonObject = {"workflow_id": workflow, **({"hash": version} if version else {})}
            if not await self._may_read(caller, "workflow.get", named):
                return False
            # A fixed version never changes.
            workflow = "" if version else workflow
        subscription.uris[uri] = workflow
        return True

    def _follow(self, subscription: Subscription, uri: str, place: tuple[str, str]) -> None:
        """Report changes of another server's resource, as that server reports them."""
        upstreams = self._gate.services.upstreams
        if upstreams is None or uri in subscription.left:
            return

        def heard() -> None:
            subscription.put(ResourceUpdated(uri))

        upstreams.followed.follow(*place, heard)
        subscription.left[uri] = partial(upstreams.followed.leave, *place, heard)

    def remove_address(self, subscription: Subscription, uri: str) -> None:
        """Stop reporting changes of a resource."""
        subscription.uris.pop(uri, None)
        subscription.left.pop(uri, lambda: None)()
        for run_id, followed in list(subscription.runs.items()):
            followed.changes.discard(ResourceUpdated(uri))
            if not followed.changes:
                followed.task.cancel()
                del subscription.runs[run_id]

    async def add_task(self, subscription: Subscription, task_id: str) -> bool:
        """Report the task now and whenever it changes; False if this caller has no such task."""
        self.refuse_more(subscription, 1)
        known = await self._add_run(subscription, task_id, TaskChanged(task_id))
        if known:
            subscription.put(TaskChanged(task_id))
        return known

    def refuse_more(self, subscription: Subscription, more: int) -> None:
        """Refuse to add so many more addresses or tasks, if the limit would be exceeded."""
        if subscription.size + more > limits.MCP_SUBSCRIBED_MAX:
            message = f"a subscription covers at most {limits.MCP_SUBSCRIBED_MAX} addresses and tasks"
            raise LimitExceeded(
                "STREAMS_LIMITED", message, "end a subscription first", {"limit": limits.MCP_SUBSCRIBED_MAX}
            )

    async def _may_read(self, caller: Caller, operation: str, arguments: JsonObject) -> bool:
        try:
            await call_operation(self._gate, caller, operation, arguments)
        except PenstockError as error:
            if isinstance(error, NotFound) or error.code in _UNSEEN:
                return False
            raise
        return True

    async def _exposed_at(self, caller: Caller, address: str) -> str | None:
        """Return the workflow that is read at an address."""
        for resource in await self._visible(caller, await self._gate.exposed.of(caller.principal.tenant)):
            if resource.address.values(address) is not None:
                return resource.workflow_id
        return None

    async def _visible(self, caller: Caller, exposure: Exposure) -> list[ExposedResource]:
        listed = (item.capability for item in exposure.resources.values())
        allowed = await self._gate.lists.allowed(caller.principal, listed, caller.standpoint)
        return [item for item in exposure.resources.values() if item.capability.name in allowed]

    # --- executions ------------------------------------------------------------------------------

    async def _add_run(self, subscription: Subscription, execution_id: str, change: Change) -> bool:
        caller, services = subscription.caller, self._gate.services
        if not await self._may_read(caller, "execution.status", {"execution_id": execution_id}):
            return False
        position = await execution_position(services, caller.principal.tenant, execution_id)
        if position is None:
            return False
        followed = subscription.runs.get(position.run_id)
        if followed is None:
            changes: set[Change] = set()

            def moved() -> None:
                for message in changes:
                    subscription.put(message)

            def child_moved() -> None:
                # A child's question appears in the task of its parent.
                for message in changes:
                    if isinstance(message, TaskChanged):
                        subscription.put(message)

            task = asyncio.ensure_future(follow_execution(services, position, moved, child_moved))
            followed = subscription.runs[position.run_id] = _Followed(task, changes)
        followed.changes.add(change)
        return True

    # --- workflows -------------------------------------------------------------------------------

    def _tenant_changed(self, tenant: str) -> None:
        self._changed.add(tenant)
        self._arrived.set()

    def _wake_up(self) -> None:
        self._asked_at = 0.0
        self._arrived.set()

    async def _watch(self, mark: _Mark) -> None:
        """Look for changes while anybody is subscribed."""
        services, exposed = self._gate.services, self._gate.exposed
        exposed.listen(self._tenant_changed)
        services.open_streams.listen(self._wake_up)
        pause = limits.EXPOSED_REREAD_MS / 1000
        try:
            while self._open and not services.open_streams.ending:
                # Not `wait_for`: in Python 3.11 that loses a cancellation that comes together with the event, and then
                # `stop` would wait for ever.
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._arrived.wait()
                self._arrived.clear()
                before, mark = mark, self._mark()
                if mark != before:
                    self._changed.update(self._open)
                began = asyncio.get_running_loop().time()
                await self._check_tenants()
                spent = asyncio.get_running_loop().time() - began
                # If a look takes long, pause longer.
                pause = max(limits.EXPOSED_REREAD_MS / 1000, spent * limits.MCP_LOOK_PAUSE_FACTOR)
        finally:
            self._watching = None
            exposed.leave(self._tenant_changed)
            services.open_streams.leave(self._wake_up)
            for subscription in [item for listening in self._open.values() for item in listening]:
                subscription.end()

    def _snapshot(self, exposure: Exposure) -> _TenantSnapshot:
        return _TenantSnapshot((self._gate.catalogue.revision, exposure.revision), exposure.workflows)

    def _mark(self) -> _Mark:
        return self._gate.exposed.mark_of_lists(), self._gate.catalogue.revision

    async def _check_tenants(self) -> None:
        try:
            await self._end_invalid()
            while self._changed:
                await self._check_tenant(self._changed.pop())
        except PenstockError as error:
            # The store may be available again at the next look.
            _LOGGER.warning("cannot check for changes at the moment: %s", error.code)

    async def _end_invalid(self) -> None:
        """End subscriptions whose key is no longer valid; when a key is revoked in this process, at once."""
        now = asyncio.get_running_loop().time()
        if now - self._asked_at < limits.STREAM_HEARTBEAT_SECONDS:
            return
        self._asked_at = now
        is_valid: dict[Hashable, bool] = {}
        for subscription in [item for listening in self._open.values() for item in listening]:
            principal = subscription.caller.principal
            if principal.proof not in is_valid:
                is_valid[principal.proof] = await self._gate.services.still_valid(principal)
            if not is_valid[principal.proof]:
                subscription.end()

    async def _check_tenant(self, tenant: str) -> None:
        known = self._tenants.get(tenant)
        if known is None:
            return
        self._gate.exposed.changed(tenant, quietly=True)
        exposure = await self._gate.exposed.of(tenant)
        seen, changed = self._snapshot(exposure), exposure.workflows.changed_since(known.workflows)
        if not changed and seen.revisions == known.revisions:
            return
        self._looks += 1
        if tenant in self._open:
            self._tenants[tenant] = seen
        shared: dict[Hashable, dict[ListKind, object]] = {}
        for subscription in tuple(self._open.get(tenant, ())):
            for uri, workflow in subscription.uris.items():
                if workflow in changed:
                    subscription.put(ResourceUpdated(uri))
            # Most subscribers see the same lists, so compute them once; and let others run while thousands are
            # notified.
            caller = subscription.caller
            group = (_group(subscription), await self._gate.lists.key(caller.principal, caller.standpoint))
            if group not in shared:
                shared[group] = await self._visible_lists(subscription, exposure)
            shown = shared[group]
            await asyncio.sleep(0)
            for kind in subscription.lists:
                if shown[kind] != subscription.seen.get(kind):
                    subscription.put(ListChanged(kind))
            subscription.seen = shown

    async def _visible_lists(self, subscription: Subscription, exposure: Exposure) -> dict[ListKind, object]:
        """Return the lists as the caller sees them."""
        caller, principal = subscription.caller, subscription.caller.principal
        shown: dict[ListKind, object] = {}
        tool_list = await self._registry.of(principal, caller.toolset, caller.remote)
        if "tools" in subscription.lists:
            shown["tools"] = tuple(tool.listed for tool in tool_list.tools)
        if "prompts" in subscription.lists:
            shown["prompts"] = await self._contents.prompts(caller)
        if "resources" in subscription.lists:
            exposed = [
                (item.address.text, item.name, item.title, item.description, item.mime_type)
                for item in await self._visible(caller, exposure)
            ]
            words = exposure.workflows.words if _LIST_OPERATION in tool_list.operations else ()
            shown["resources"] = (exposed, words, await self._contents.imported(caller))
        return shown

    async def stop(self) -> None:
        """End every subscription."""
        if self._watching is not None:
            self._watching.cancel()
            with suppress(asyncio.CancelledError):
                await self._watching
        for subscription in [item for listening in self._open.values() for item in listening]:
            self.close(subscription)
