"""Which workflows have which addresses: the webhooks of a tenant, found by path.

Definitions are read again for an unknown address, but at a limited rate, so that strangers who guess addresses cost
little. A definition that was found is checked every time to be still the newest.

Above it: `receiver`, `triggers`. Below it: the store's definitions.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.base.clock import Clock
from penstock.base.errors import Rejected
from penstock.base.ids import DEFAULT_TENANT
from penstock.base.lru_cache import LruCache
from penstock.definitions.webhooks import WebhookTrigger, hook_path, webhook_triggers
from penstock.runtime.ports.runs import DefinitionRow
from penstock.runtime.tables.runs.store import RunStore

__all__ = ["Hook", "HookTable", "hooks_of"]

_LOGGER = logging.getLogger("penstock.webhooks")
_TENANTS_KEPT = 256
# How long an unknown address counts as unknown before the definitions are read again.
_LOOK_AGAIN_MS = 1_000
# How long until it is noticed that another workflow has taken the same address.
_KEPT_MS = 10_000
# No path of a document begins with this, so a path of the default tenant cannot take the address of another tenant.
_TENANT_MARK = "@"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """A webhook of a workflow."""

    tenant: str
    workflow_name: str
    definition_hash: str
    trigger: WebhookTrigger

    @property
    def address(self) -> str:
        """The path of its requests, from the root of the server."""
        tenant = "" if self.tenant == DEFAULT_TENANT else f"{_TENANT_MARK}{self.tenant}/"
        return f"/hooks/{tenant}{self.trigger.path}"


def hooks_of(row: DefinitionRow) -> list[Hook]:
    """Return the webhooks of a definition."""
    triggers = row.document.get("triggers")
    listed = [trigger for trigger in triggers if isinstance(trigger, dict)] if isinstance(triggers, list) else []
    try:
        return [
            Hook(tenant=row.tenant, workflow_name=row.name, definition_hash=row.hash, trigger=trigger)
            for trigger in webhook_triggers(row.name, listed)
        ]
    except Rejected as error:
        # A release with other checks stored it; the rest of the document may still work.
        _LOGGER.warning("the webhooks of %s cannot be used: %s", row.name, error.message)
        return []


@dataclass(frozen=True, slots=True)
class _Loaded:
    at: int
    hooks: Mapping[str, tuple[Hook, ...]]


class HookTable:
    """Finds webhooks by the path of a request."""

    def __init__(self, store: RunStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._tenants: LruCache[str, _Loaded] = LruCache(_TENANTS_KEPT)

    async def find(self, path: str) -> tuple[Hook, ...]:
        """Return the webhooks at a path below /hooks; a leading `@` names a tenant other than the default one."""
        wanted = hook_path(path)
        if not wanted.startswith(_TENANT_MARK):
            return await self._find_in(DEFAULT_TENANT, wanted)
        tenant, _, rest = wanted.removeprefix(_TENANT_MARK).partition("/")
        return await self._find_in(tenant, hook_path(rest)) if rest and tenant != DEFAULT_TENANT else ()

    async def _find_in(self, tenant: str, path: str) -> tuple[Hook, ...]:
        loaded, now = self._tenants.get(tenant), self._clock.now_ms()
        if loaded is None or now - loaded.at >= (_KEPT_MS if path in loaded.hooks else _LOOK_AGAIN_MS):
            loaded = await self._load(tenant, now)
        found = loaded.hooks.get(path, ())
        for hook in found:
            newest = await self._store.definitions.find_named(hook.workflow_name, tenant=tenant)
            if newest is None or newest.hash != hook.definition_hash:
                return (await self._load(tenant, now)).hooks.get(path, ())
        return found

    async def _load(self, tenant: str, now: int) -> _Loaded:
        hooks: dict[str, tuple[Hook, ...]] = {}
        for row in await self._store.definitions.list_newest(tenant=tenant):
            for hook in hooks_of(row):
                if hook.trigger.enabled:
                    hooks[hook.trigger.path] = (*hooks.get(hook.trigger.path, ()), hook)
        loaded = _Loaded(now, hooks)
        self._tenants.put(tenant, loaded)
        return loaded
