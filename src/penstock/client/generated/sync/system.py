"""Operations on system, typed. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from penstock.client.caller import Caller
from penstock.client.generated.views.system import ClientEntries, Health, Information, Metrics, Operations

__all__ = ["System"]


class System:
    """Operations on system."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def health(self) -> Health:
        """Ask whether the server is well.

        Looks at the store, at runs that do not move although there is work to do for them, at executors that cannot
        be made, and at the operator's files: policies, graphs and workflows that could not be read. Tenants other
        than the default one see only what decides whether the server takes work. Probes of load balancers use
        /healthz and /readyz, which need no key.
        """
        return self._caller.invoke("system.health", {}, Health)

    def info(self) -> Information:
        """Ask what the server is and who you are.

        Version, configured executors, and the tenant and scopes of the key that asks.
        """
        return self._caller.invoke("system.info", {}, Information)

    def metrics(self) -> Metrics:
        """Read the server's counters.

        The same figures that /metrics gives to Prometheus, as JSON. Those of the whole server are for the default
        tenant; others read how much they use themselves: runs that have not ended, and tokens and cost since
        midnight UTC; also the runs since then, if there is a quota for which they are counted.
        """
        return self._caller.invoke("system.metrics", {}, Metrics)

    def operations(self) -> Operations:
        """List what you can call.

        Every operation that your scopes allow and that policies would permit with some arguments, with its schema,
        scopes and REST path.
        """
        return self._caller.invoke("system.operations", {}, Operations)

    def clients(self, *, address: str) -> ClientEntries:
        """List how assistants are connected to this server.

        For each assistant that is known the entry for its file, where the file is, and what to do afterwards. No
        key is in it: each entry says where its client finds the key.
        """
        return self._caller.invoke("system.clients", {"address": address}, ClientEntries)
