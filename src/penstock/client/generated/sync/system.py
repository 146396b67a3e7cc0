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
        """Check the health of the server.

        Checks the store, runs that do not move although they could, executors that cannot be made, scheduled
        backups, and the operator's files: policies, graphs and workflows that cannot be used, and files that other
        users of the machine can change. Tenants other than the default one see only what decides whether the server
        accepts work. For probes of load balancers use /healthz and /readyz, which need no key.
        """
        return self._caller.invoke("system.health", {}, Health)

    def info(self) -> Information:
        """Get the server's version and your identity.

        Returns the version, the configured executors, the tenant and scopes of your key, and the rules that the
        operator chose: the preset of held calls, and whether the maker of a key may approve for it.
        """
        return self._caller.invoke("system.info", {}, Information)

    def metrics(self) -> Metrics:
        """Read the server's metrics.

        Returns the figures that /metrics gives to Prometheus, as JSON. Figures of the whole server are for the
        default tenant. Other tenants read their own use: runs that have not ended, tokens and cost since midnight
        UTC, and the runs since then if a quota counts them.
        """
        return self._caller.invoke("system.metrics", {}, Metrics)

    def operations(self) -> Operations:
        """List what you can call.

        Returns every operation that your scopes allow and that policies permit with some arguments, with its
        schema, scopes and REST path.
        """
        return self._caller.invoke("system.operations", {}, Operations)

    def clients(self, *, address: str) -> ClientEntries:
        """List how assistants connect to this server.

        For each known assistant: the entry for its file, where the file is, and what to do then. It contains no
        key: each entry says where its client finds the key.
        """
        return self._caller.invoke("system.clients", {"address": address}, ClientEntries)
