"""Opens a gate on an open `Penstock`: puts together the services that operations use.

    async with Penstock.open("penstock.db") as penstock:
        async with open_gate(penstock) as gate:
            outcome = await gate.call(Request(...))

Above it: `serving.server`, the command line. Below it: the platform store, the catalogue, the gate.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from secrets import token_bytes

from penstock import __version__
from penstock.app.os_users import os_user
from penstock.app.penstock import Penstock
from penstock.app.pepper import PEPPER_BYTES, open_pepper, pepper_path
from penstock.app.retention import Retention, apply_retention, forget_calls
from penstock.base.errors import PenstockError, Rejected
from penstock.base.ids import DEFAULT_TENANT
from penstock.base.json import JsonObject
from penstock.operations.builtin import builtin_operations, internal_operations
from penstock.operations.catalogue.catalogue import Catalogue
from penstock.operations.exposed.workflows import ExposedWorkflows
from penstock.operations.gate.authentication import Authenticator
from penstock.operations.gate.context import GateLimits, Principal, ServerParts, Services
from penstock.operations.gate.internal_callers import internal_call
from penstock.operations.gate.notifier import Notifier
from penstock.operations.gate.pipeline import Gate
from penstock.operations.keys.operations import NewKey
from penstock.operations.schedules.starts import fire_through
from penstock.operations.system.restores import record_restores
from penstock.operations.upstreams.accepting import accept_through
from penstock.runtime.sandbox.evaluator import SandboxedEvaluator
from penstock.runtime.system import new_key_material, new_run_id
from penstock.runtime.upstreams.tool_registry import UpstreamToolRegistry

__all__ = ["create_owner_key", "has_keys", "local_owner", "open_gate"]

_LOGGER = logging.getLogger("penstock")
_FLUSH_SECONDS = 5.0
_FLUSHES_PER_FORGETTING = 12


def local_owner(tenant: str = DEFAULT_TENANT) -> Principal:
    """The user of the operating system as a principal: whoever can open the file owns its contents."""
    user = os_user()
    attributes: JsonObject = {"kind": "local", "uid": user.uid}
    return Principal(
        id=user.principal_id, tenant=tenant, scopes=frozenset({"*"}), name=user.name, attributes=attributes
    )


@asynccontextmanager
async def open_gate(
    penstock: Penstock,
    *,
    chosen: GateLimits | None = None,
    pepper_file: Path | None = None,
    retention: Retention | None = None,
    looks_only: bool = False,
    server: ServerParts | None = None,
) -> AsyncIterator[Gate]:
    """A gate on an open store. Buffered records are written while it is open, and at the end.

    `looks_only` is for callers that change nothing: a store without a secret stays without one.
    """
    storage = penstock.storage
    if storage.file is None or storage.platform is None:
        raise Rejected("STORE_UNSUITABLE", "a gate needs a store in a file", "open Penstock with a path")
    platform = storage.platform()
    secret = pepper_file or pepper_path(storage.file)
    pepper = await open_pepper(secret, storage.file, platform, looks_only=looks_only)
    # Without a stored secret, nothing was or will be made with one, so any bytes will do.
    key = pepper or token_bytes(PEPPER_BYTES)
    clock, definitions_changed, parts = penstock.host.clock, Notifier[[str]](), server or ServerParts()
    catalogue = Catalogue(builtin_operations(), internal_operations())
    authenticator = Authenticator(platform, clock, key)
    upstreams = UpstreamToolRegistry(
        platform=platform,
        clock=clock,
        rules=penstock.upstream.rules,
        changed=definitions_changed,
    )
    services = Services(
        store=storage.store,
        platform=platform,
        host=penstock.host,
        scheduler=penstock.scheduler,
        clock=clock,
        new_id=new_run_id,
        new_key_material=new_key_material,
        pepper=key,
        audited=pepper is not None,
        limits=chosen or GateLimits(),
        information={"version": __version__},
        resolve_secret=penstock.secrets,
        webhooks=parts.webhooks,
        hook_evaluator=(hook_evaluator := SandboxedEvaluator()),
        catalogue=catalogue,
        upstreams=upstreams,
        still_valid=authenticator.still_valid,
        definitions_changed=definitions_changed,
        checks=parts.checks,
        telemetry=parts.telemetry,
        read_metrics=parts.read_metrics,
        base_path=parts.base_path,
    )
    gate = Gate(catalogue, services, authenticator, ExposedWorkflows(services))
    if pepper is not None:
        await _begin(gate, upstreams)
    beside = [
        asyncio.create_task(_flush_regularly(gate, retention or Retention())),
        asyncio.create_task(gate.key_monitor.run()),
    ]
    try:
        async with penstock.upstream.watch_servers(upstreams), _scheduling(penstock, gate):
            yield gate
    finally:
        await gate.finish()
        for task in beside:
            task.cancel()
        await asyncio.wait(beside)
        await gate.flush(final=True)
        services.documents.close()
        hook_evaluator.close()
        services.hook_threads.close()
        services.view_threads.close()


async def _begin(gate: Gate, upstreams: UpstreamToolRegistry) -> None:
    """Initialise a gate that has the secret of its file: from now on, automatic changes go through the gate too."""
    upstreams.act = accept_through(gate)
    await record_restores(gate)


@asynccontextmanager
async def _scheduling(penstock: Penstock, gate: Gate) -> AsyncIterator[None]:
    """Start scheduled runs through calls of this gate until the block ends."""
    scheduler = penstock.scheduler
    begins = penstock.keeps_schedules and not scheduler.is_looking
    before, scheduler.fire = scheduler.fire, fire_through(gate)
    if begins:
        scheduler.start()
    try:
        yield
    finally:
        if begins:
            await scheduler.stop()
        scheduler.fire = before


async def _flush_regularly(gate: Gate, retention: Retention) -> None:
    """Write buffered records, and delete what is past its retention time."""
    for turn in count():
        await asyncio.sleep(_FLUSH_SECONDS)
        try:
            await gate.flush()
            platform, now = gate.services.platform, gate.services.clock.now_ms()
            await forget_calls(platform, now)
            if turn % _FLUSHES_PER_FORGETTING == 0:
                await apply_retention(gate, retention)
        except PenstockError:
            _LOGGER.exception("what the gate gathered could not be written; it tries again")


async def has_keys(gate: Gate) -> bool:
    """True if a store has a key, valid or not."""
    return bool((await gate.services.platform.keys(tenant=None, limit=1)).rows)


async def create_owner_key(gate: Gate) -> str | None:
    """Create the first key of a store, which may do everything; None if there are keys already.

    The key is created for the user who starts the server, with the same call as on the command line.
    """
    if await has_keys(gate):
        return None
    made: NewKey = await internal_call(gate, local_owner(), "key.create", {"name": "owner", "scopes": ["*"]})
    return made.secret
