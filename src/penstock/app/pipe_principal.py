"""The principal of the assistant that runs `penstock mcp`.

A user who can start `penstock mcp` on a file owns that file, but the assistant is only an agent that acts for them. It
may run what is exposed and follow its runs. With the management tools, it may use every operation that is a tool. Keys,
tokens and policies are for people. The settings can name another principal; only they can make it the owner.

Above it: `penstock mcp`. Below it: the settings, the gate.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from penstock.app.gate import local_owner
from penstock.app.settings.model import Settings
from penstock.base.ids import DEFAULT_TENANT
from penstock.governance.kept_authority import PIPE
from penstock.operations.catalogue.capability import Capability
from penstock.operations.catalogue.exposure import Exposure
from penstock.operations.gate.context import Principal
from penstock.operations.gate.pipeline import Gate
from penstock.operations.gate.tokens.protected_resource import BASIC_SCOPES
from penstock.operations.stored_queries.tool_names import GRAPH_TOOLS

__all__ = ["PipePrincipal"]

# Running what is exposed, following its runs, and answering: forms of the client are answered by the person who owns
# the file, and what a model says never counts as an approval.
_BASIC = (*BASIC_SCOPES, "draft:read", "draft:write", "preflight:run", "upstream:run", "approve:*")
_OF_GRAPH = "graph:"
# Toolsets without operations other than those that follow runs.
_WITHOUT_OPERATIONS = frozenset({"default", "workflows", "upstream"})


class PipePrincipal:
    """The principal of a pipe. What is exposed may change while the pipe is open, and its scopes with that."""

    def __init__(self, gate: Gate, settings: Settings) -> None:
        self._gate = gate
        chosen, owner = settings.server.mcp.pipe, local_owner()
        self._follows = False
        self._exposure: Exposure | None = None
        self._base = self._principal = owner
        if chosen.owner:
            return
        self._follows = not chosen.scopes
        name = chosen.name or owner.name
        self._base = self._principal = Principal(
            id=f"{PIPE}{name}",
            tenant=DEFAULT_TENANT,
            kind=chosen.kind,
            scopes=frozenset(chosen.scopes or (*_BASIC, *self._operations(settings.server.mcp.toolset))),
            groups=frozenset(chosen.groups),
            name=name,
            attributes=owner.attributes,
            acting_for=(owner.id,),
            subject=owner.id,
        )

    def _operations(self, toolset: str) -> Iterable[str]:
        """The scopes of the operations that are tools, if the operator offers more than those that follow runs."""
        words = {word.strip() for word in toolset.split(",")} - _WITHOUT_OPERATIONS - {""}
        if not words:
            return ()
        offered = [item for item in self._gate.catalogue.all() if item.route and item.governance.bucket != "admin"]
        if toolset.startswith(_OF_GRAPH):  # nothing but the tools of one graph is listed
            offered = [item for item in offered if item.name in GRAPH_TOOLS]
        return _scopes(offered)

    async def prepare(self) -> None:
        """Look up what is exposed, before the first request."""
        if self._follows:
            self._follow(await self._gate.exposed.of(self._principal.tenant))

    def __call__(self) -> Principal:
        """The principal as it is now."""
        exposure = self._gate.exposed.at_hand(self._principal.tenant) if self._follows else None
        if exposure is not None and exposure is not self._exposure:
            self._follow(exposure)
        return self._principal

    def _follow(self, exposure: Exposure) -> None:
        """Add the scopes that exposed workflows and imported tools need: exposing one lets the assistant call it."""
        self._exposure = exposure
        found = (*exposure.tools.values(), *exposure.contents.values())
        self._principal = replace(self._base, scopes=self._base.scopes.union(_scopes(found)))


def _scopes(capabilities: Iterable[Capability]) -> Iterable[str]:
    return (scope for item in capabilities for scope in item.governance.scopes)
