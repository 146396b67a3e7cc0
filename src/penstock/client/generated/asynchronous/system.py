"""Operations on system, awaited. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from penstock.client.caller import AsyncCaller
from penstock.client.generated.views.system import ClientEntries, Health, Information, Metrics, Operations

__all__ = ["AsyncSystem"]


class AsyncSystem:
    """Operations on system."""

    def __init__(self, caller: AsyncCaller) -> None:
        self._caller = caller

    async def health(self) -> Health:
        """Ask whether the server is well.

        Looks at the store, at runs that do not move although there is work to do for them, at executors that cannot
        be made, and at the operator's files: policies, graphs and workflows that could not be read. Tenants other
        than the default one see only what decides whether the server takes work. Probes of load balancers use
        /healthz and /readyz, which need no key.
        """
        return await self._caller.invoke("system.health", {}, Health)

    async def info(self) -> Information:
        """Ask what the server is and who you are.

        Version, configured executors, and the tenant and scopes of the key that asks.
        """
        return await self._caller.invoke("system.info", {}, Information)

    async def metrics(self) -> Metrics:
        """Read the server's counters.

        The same figures that /metrics gives to Prometheus, as JSON. Those of the whole server are for the default
        tenant; others read how much they use themselves: runs that have not ended, and tokens and cost since
        midnight UTC; also the runs since then, if there is a quota for which they are counted.
        """
        return await self._caller.invoke("system.metrics", {}, Metrics)

    async def operations(self) -> Operations:
        """List what you can call.

        Every operation that your scopes allow and that policies would permit with some arguments, with its schema,
        scopes and REST path.
        """
        return await self._caller.invoke("system.operations", {}, Operations)

    async def clients(self, *, address: str) -> ClientEntries:
        """List how assistants are connected to this server.

        For each assistant that is known the entry for its file, where the file is, and what to do afterwards. No
        key is in it: each entry says where its client finds the key.
        """
        return await self._caller.invoke("system.clients", {"address": address}, ClientEntries)
