"""The page about limits: names, values and reasons, read from the modules of `base/limits` as they are written."""

import ast
import inspect
from collections.abc import Iterator
from pkgutil import iter_modules
from types import ModuleType

from docs.generator.markdown import code, page, table
from penstock.base import limits
from penstock.base.limits import (
    agent_profile,
    agents,
    documents,
    executors,
    expressions,
    gate,
    graph_language,
    graphs,
    host,
    http,
    identity,
    mcp,
    policy,
    process,
    runs,
    schemas,
    stored_queries,
    stores,
    upstreams,
    webhooks,
)

__all__ = ["limits_page"]

# In the order of a workflow's life: written, run, stored, called.
_AREAS = (
    documents,
    expressions,
    schemas,
    runs,
    host,
    executors,
    agents,
    upstreams,
    stores,
    graph_language,
    graphs,
    stored_queries,
    identity,
    policy,
    gate,
    agent_profile,
    http,
    mcp,
    webhooks,
    process,
)


def limits_page() -> str:
    """Every limit with its value and the comment that stands above it."""
    missing = {each.name for each in iter_modules(limits.__path__)} - {
        area.__name__.rpartition(".")[2] for area in _AREAS
    }
    assert not missing, f"areas of limits that the page leaves out: {missing}"
    intro = (
        "Nothing in Penstock grows without bound. What is too large is refused with a message that names the limit. "
        "A name ends in its unit: `_MAX` alone counts things."
    )
    rows = [[code(name), _grouped(getattr(area, name)), reason] for area in _AREAS for name, reason in _limits_of(area)]
    return page("Limits", "`base/limits`", [intro, table(["Name", "Value", "Why"], rows)])


def _grouped(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _limits_of(area: ModuleType) -> Iterator[tuple[str, str]]:
    source = inspect.getsource(area)
    lines = source.splitlines()
    for statement in ast.parse(source).body:
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        if isinstance(target, ast.Name) and target.id.isupper():
            yield target.id, _comment_above(lines, statement.lineno - 1)


def _comment_above(lines: list[str], index: int) -> str:
    found: list[str] = []
    while index > 0 and lines[index - 1].startswith("#"):
        index -= 1
        found.insert(0, lines[index].removeprefix("#").strip())
    return " ".join(found)
