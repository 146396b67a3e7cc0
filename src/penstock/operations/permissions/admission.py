"""Whether a run may start now: the rate that its workflow asks for, and the quotas of whom it counts for.

`starting` decides who may start a workflow; this module decides when. A start counts once for the workflow and once for
each workflow that it runs as a child. How often a run starts a child is not counted: the run was admitted.

Above it: everything that starts runs. Below it: `gate.rates`, `starting`.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.definitions.start_needs import StartNeeds
from penstock.operations.gate.context import Context
from penstock.operations.gate.rates.sharing import charge_start
from penstock.operations.permissions.starting import needs_of, needs_to_start
from penstock.runtime.ports.runs import RunRow

__all__ = ["admit_restart", "admit_run", "admit_start", "admit_workflow"]


async def admit_start(context: Context, versions: Sequence[StartNeeds]) -> None:
    """Count the start of a workflow; raise `LimitExceeded` if it comes too soon.

    `versions` are what the newest version asks for and what the started one does; both hold.
    """
    if any(item.children or item.rate is not None for item in versions):  # hardly any workflow has either
        services = context.services
        needs = await needs_to_start(services, context.tenant, versions)
        rates = [item.rate for item in needs if item.rate is not None]
        if rates:
            await charge_start(services.platform, context.tenant, rates, context.now_ms())
    await admit_run(context)


async def admit_run(context: Context) -> None:
    """Let the store count the run that this call starts, if there are quotas for it; raise if there is no room for it.

    A repeated call that finds its run counts nothing: the store counts with the first record of a run.
    """
    quotas = context.services.quotas
    if quotas is not None:
        context.call.quota = await quotas.of_start(context.principal)


async def admit_workflow(context: Context, name: str) -> None:
    """Count the start of the newest version of a workflow by name; one that does not exist is reported by the start."""
    newest = await context.services.store.definitions.find_named(name, tenant=context.tenant)
    if newest is not None:
        await admit_start(context, [needs_of(context.services, newest)])


async def admit_restart(context: Context, row: RunRow) -> None:
    """Count the start of a run that repeats another one, or a part of it."""
    store = context.services.store
    newest = await store.definitions.find_named(row.workflow_name, tenant=context.tenant)
    own = await store.definitions.find(row.definition_hash)
    await admit_start(context, [needs_of(context.services, found) for found in (newest, own) if found is not None])
