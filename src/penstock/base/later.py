"""Modules that are imported when something of them is first used, so that a server starts without them.

    if TYPE_CHECKING:
        from penstock.definitions import diff
    else:
        diff = later("penstock.definitions.diff.compare")

The first branch is for people, type checkers and the contracts between layers, which see the import as any other; the
second is what happens. It is for modules that few calls need and that take long to import: checks of documents, HTTP
clients, what draws on terminals. `tests/unit/cli/test_start.py` lists what a server must not import at its start.

Above it: whoever starts fast. Below it: the standard library.
"""

from __future__ import annotations

from importlib import import_module

__all__ = ["Later", "later"]


class Later:
    """Stands for a module. What was found in it once is found at once the next time."""

    def __init__(self, name: str) -> None:
        self._later_name = name

    def __getattr__(self, attribute: str) -> object:
        value: object = getattr(import_module(self._later_name), attribute)
        # In the dictionary of the instance it is found before this method is asked again.
        setattr(self, attribute, value)
        return value

    def __repr__(self) -> str:
        return f"<{self._later_name}, later>"


def later(module: str) -> Later:
    """A module that is imported when something of it is first used."""
    return Later(module)
