"""Lazy imports: a module is imported when something in it is first used, so that a server starts without it.

    if TYPE_CHECKING:
        from penstock.definitions.diff import compare
    else:
        compare = lazy_import("penstock.definitions.diff.compare")

People, type checkers and the import contracts see the first branch, an import like any other; the second is what runs.
Use it for modules that few calls need and that take long to import: checks of documents, HTTP clients, terminal output.
`tests/unit/cli/test_cli_start.py` lists what a server must not import when it starts.

`importlib.util.LazyLoader` does less. It imports the packages above the module at once (`cryptography` for
`cryptography.exceptions`), searches the disk at start, and puts a stand-in into `sys.modules` where others find it. In
some releases of Python 3.11, two threads may both load the module.

Modules of a library that import each other in a circle cannot be imported by two threads at once: Python breaks the
deadlock, and one of the threads finds a module that is half there. So every import that happens while a program runs
goes through `import_alone`, or through the block `importing_alone`: one thread imports, the others wait. The lock for
that is the only thing of threads in the pure packages, and their contract names it: it decides nothing, and every
package imports through the same one.

Above it: whatever must start fast. Below it: the standard library.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from threading import RLock  # the one exception in the contract "Core is pure"
from types import ModuleType

__all__ = ["LazyModule", "import_alone", "importing_alone", "lazy_exports", "lazy_import"]

_IMPORTING = RLock()
# Longer than any import. A thread that imports without the lock, and needs it in the middle, must not wait for ever.
_WAIT_SECONDS = 30.0


@contextmanager
def importing_alone() -> Iterator[None]:
    """Import, in the block, while no other thread does."""
    held = _IMPORTING.acquire(timeout=_WAIT_SECONDS)
    try:
        yield
    finally:
        if held:
            _IMPORTING.release()


def import_alone(name: str) -> ModuleType:
    """Import a module while no other thread imports one. A module that is there is returned at once."""
    known = sys.modules.get(name)
    if known is not None and not getattr(getattr(known, "__spec__", None), "_initializing", False):
        return known
    with importing_alone():
        return import_module(name)


class LazyModule:
    """Stands for a module, and imports it when an attribute is first read. Each attribute is looked up once."""

    def __init__(self, name: str) -> None:
        self._lazy_name = name

    def __getattr__(self, attribute: str) -> object:
        value: object = getattr(import_alone(self._lazy_name), attribute)
        # Python calls this method only for attributes that the instance lacks, so the next read costs nothing extra.
        setattr(self, attribute, value)
        return value

    def __repr__(self) -> str:
        return f"<lazy module {self._lazy_name!r}>"


def lazy_import(module: str) -> LazyModule:
    """Return a stand-in for a module that imports it on first use."""
    return LazyModule(module)


def lazy_exports(package: str, modules: Mapping[str, str]) -> Callable[[str], object]:
    """Return the `__getattr__` of a package (PEP 562) that imports a public name from its module on first access.

    `modules` maps each name to its module. This keeps other imports of the package cheap, and lets a package export
    modules that import the package itself.
    """

    def __getattr__(name: str) -> object:  # noqa: N807  # the name is PEP 562's
        module = modules.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_alone(module), name)
        setattr(sys.modules[package], name, value)
        return value

    return __getattr__
