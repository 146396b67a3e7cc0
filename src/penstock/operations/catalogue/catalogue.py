"""The catalogue: everything that can be called, by name.

It is filled from four sources (built-in operations, exposed workflows and agents, stored queries, imported tools) and
does not depend on the caller. Names that a caller may not use must look as if they did not exist; the gate ensures that
with `visible`.

Above it: `pipeline` and the surfaces. Below it: `capability`.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from penstock.base.errors import NotFound
from penstock.operations.catalogue.capability import Capability

__all__ = ["UNKNOWN_OPERATION", "Catalogue"]

UNKNOWN_OPERATION = "OPERATION_NOT_FOUND"
"""The code for a name that nothing has, or that the caller may not know."""


class Catalogue:
    """Capabilities by canonical name. The spelling with underscores works too."""

    def __init__(self, capabilities: Iterable[Capability] = (), internal: Iterable[Capability] = ()) -> None:
        self._by_name: dict[str, Capability] = {}
        self._spellings: dict[str, str] = {}
        self.revision = 0
        for capability in capabilities:
            self.add(capability)
        self._internal = {capability.name: capability for capability in internal}

    def add(self, capability: Capability) -> None:
        """Add a capability; raise ValueError if the name is taken."""
        if capability.name in self._by_name:
            raise ValueError(f"{capability.name} is in the catalogue already")
        self._by_name[capability.name] = capability
        self._spellings[capability.name.replace(".", "_")] = capability.name
        self.revision += 1

    def remove(self, name: str) -> None:
        """Remove a capability, if there is one with this name."""
        if self._by_name.pop(name, None) is not None:
            self._spellings.pop(name.replace(".", "_"), None)
            self.revision += 1

    def get(self, name: str) -> Capability | None:
        """Return the capability with this name, in either spelling; None if it does not exist."""
        return self._by_name.get(name) or self._by_name.get(self._spellings.get(name, ""))

    def internal(self, name: str) -> Capability | None:
        """Return an operation that only the process itself may call. No list shows it, and no surface finds it."""
        return self._internal.get(name)

    def find(self, name: str) -> Capability:
        """Return the capability with this name; raise NotFound with suggestions if it does not exist."""
        found = self.get(name)
        if found is not None:
            return found
        near = get_close_matches(name[:100], self._by_name, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else "list the operations with system.operations"
        raise NotFound(UNKNOWN_OPERATION, f"there is no operation {name[:100]}", hint)

    def all(self) -> tuple[Capability, ...]:
        """Return every capability, sorted by name."""
        return tuple(self._by_name[name] for name in sorted(self._by_name))
