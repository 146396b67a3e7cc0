"""What a principal is shown: what it has the scopes for, and what policies would permit with some arguments.

Above it: `pipeline`, the surfaces and operations that list things. Below it: the catalogue, `policy_stage`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from penstock.base.scopes import missing_scope
from penstock.operations.catalogue.capability import Capability
from penstock.operations.catalogue.catalogue import Catalogue
from penstock.operations.catalogue.exposure import Exposures
from penstock.operations.gate.context import Principal, Services
from penstock.operations.gate.policy_stage import Standpoint

__all__ = ["ANYWHERE", "Listing", "allowed_names"]

ANYWHERE = Standpoint(surface="system")
"""The standpoint of a reader that does not call through a surface."""


class Listing:
    """Filters lists for principals."""

    def __init__(self, catalogue: Catalogue, services: Services, exposed: Exposures) -> None:
        self._catalogue = catalogue
        self._services = services
        self._exposed = exposed

    async def visible(self, principal: Principal, standpoint: Standpoint = ANYWHERE) -> tuple[Capability, ...]:
        """Return all that a principal may call: built-in operations, then what its tenant exposes; each by name.

        Policies may permit some arguments of it and forbid others.
        """
        exposure = await self._exposed.of(principal.tenant)
        every = (*self._catalogue.all(), *exposure.tools.values())
        revisions = ("tools", self._catalogue.revision, exposure.revision)
        allowed = await self.allowed(principal, every, standpoint, revisions)
        return tuple(found for found in every if found.name in allowed)

    async def allowed(
        self,
        principal: Principal,
        capabilities: Iterable[Capability],
        standpoint: Standpoint = ANYWHERE,
        revisions: Hashable = None,
    ) -> frozenset[str]:
        """Return the names of those capabilities that a principal has the scopes for and may call with some arguments.

        `revisions` identifies the capabilities; with it, what policies decide is kept.
        """
        return await allowed_names(self._services, principal, capabilities, standpoint, revisions)

    async def key(self, principal: Principal, standpoint: Standpoint) -> Hashable:
        """Return what policies make a list depend on, besides scopes and the items themselves; None for nothing."""
        stage = self._services.policies
        policies = None if stage is None else await stage.of(principal.tenant)
        return None if stage is None else stage.list_key(policies, principal, standpoint)

    def key_at_hand(self, principal: Principal, standpoint: Standpoint) -> tuple[Hashable] | None:
        """Return the same in a tuple, if it is known without reading anything; None if not."""
        stage = self._services.policies
        known = (None,) if stage is None else stage.at_hand(principal.tenant)
        if known is None or stage is None:
            return known
        return (stage.list_key(known[0], principal, standpoint),)


async def allowed_names(
    services: Services,
    principal: Principal,
    capabilities: Iterable[Capability],
    standpoint: Standpoint = ANYWHERE,
    revisions: Hashable = None,
) -> frozenset[str]:
    """Return the names of those capabilities that a principal may call with some arguments; see `Listing.allowed`."""
    within = [item for item in capabilities if missing_scope(principal.scopes, item.governance.scopes) is None]
    stage = services.policies
    policies = None if stage is None else await stage.of(principal.tenant)
    if stage is None or policies is None:
        return frozenset(item.name for item in within)
    return stage.visible(policies, principal, within, standpoint, revisions)
