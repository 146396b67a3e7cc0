"""Executors with optional libraries, loaded only when an operator configures them.

    agents = load_executor("a2a").A2aClients()

Above it: everything that composes executors. Below it: the executor modules that import `pydantic_ai` and `a2a`. These
libraries take seconds to import and tens of megabytes on disk, so nothing else may import those modules.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from types import ModuleType

from penstock.base.errors import Rejected, Unavailable
from penstock.base.lazy_import import import_alone
from penstock.runtime.extras import install_hint

__all__ = ["EXTRA_EXECUTORS", "ExtraExecutor", "load_executor", "require_extra"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtraExecutor:
    """A module with an executor, and the extra that installs the libraries it imports."""

    module: str
    extra: str
    libraries: tuple[str, ...]


EXTRA_EXECUTORS = {
    # A2aClients: agents that speak the A2A standard.
    "a2a": ExtraExecutor(
        module="penstock.runtime.executors.agents.a2a", extra="a2a", libraries=("a2a", "google", "httpx")
    ),
    # PydanticProvider: language models. The scripted one needs no extra.
    "llm": ExtraExecutor(
        module="penstock.runtime.executors.llm.pydantic_ai", extra="llm", libraries=("pydantic_ai", "openai")
    ),
}


def require_extra(name: str) -> None:
    """Check that the libraries of an executor are installed, without importing them. The error says what to install."""
    wanted = _named(name)
    if any(find_spec(library) is None for library in wanted.libraries):
        raise _not_installed(name, wanted)


def load_executor(name: str) -> ModuleType:
    """Import the module of an executor. If its libraries are missing, the error says what to install."""
    wanted = _named(name)
    try:
        return import_alone(wanted.module)
    except ImportError as error:
        missing = (error.name or "").partition(".")[0]
        if missing and missing not in wanted.libraries:
            raise  # something else is broken, and advice to install a library would hide it
        raise _not_installed(name, wanted) from error


def _named(name: str) -> ExtraExecutor:
    wanted = EXTRA_EXECUTORS.get(name)
    if wanted is None:
        known = ", ".join(sorted(EXTRA_EXECUTORS))
        raise Rejected("UNKNOWN_EXECUTOR", f"there is no executor named {name}", f"use one of {known}")
    return wanted


def _not_installed(name: str, wanted: ExtraExecutor) -> Unavailable:
    return Unavailable(
        "EXTRA_NOT_INSTALLED",
        f"the {name} executor is configured, but its libraries are not installed",
        install_hint(wanted.extra),
    )
