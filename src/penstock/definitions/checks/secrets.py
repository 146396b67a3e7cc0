"""Checks of secret references: declared, used, and only where an executor fills them in.

Above it: `expressions`. A secret's value never enters the history of a run, so a reference outside the fields of an
activity could never be resolved.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from penstock.base.json import JsonObject, JsonValue, json_pointer
from penstock.definitions.source.findings import Finding, NameSuggestions, Severity

__all__ = ["secret_findings"]

_SECRET = re.compile(r"\$\{secret:([A-Za-z_][A-Za-z0-9_]*)\}")
# Texts that only people read, and values that are never rendered.
_PROSE_FIELDS = frozenset({"title", "description", "metadata", "labels", "tests", "literal"})


def secret_findings(document: JsonObject, allowed: frozenset[str], suggestions: NameSuggestions) -> Iterator[Finding]:
    """Yield everything that is wrong with secrets; `allowed` are the pointers below which references are resolved."""
    declared = document.get("secrets")
    listed = declared if isinstance(declared, list) else []
    known = dict.fromkeys(name for name in listed if isinstance(name, str))
    used: set[str] = set()
    for name, path in _references(document, ""):
        used.add(name)
        if name not in known:
            guess = suggestions.nearest(name, known)
            yield Finding(
                code="UNDECLARED_SECRET",
                message=f"the secret `{name}` is not declared",
                path=path,
                hint=f"did you mean `{guess}`?" if guess else f"add {name} to `secrets` at the top",
            )
        if not _is_below(path, allowed):
            yield Finding(
                code="SECRET_NOT_ALLOWED",
                message=f"the secret `{name}` cannot be used here: it would enter the run's history",
                path=path,
                hint="secrets belong in the fields of an activity: `with`, `arguments`, `headers`, `body`, …",
            )
    for index, unused in enumerate(listed):
        if isinstance(unused, str) and unused not in used:
            yield Finding(
                code="UNUSED_SECRET",
                message=f"the secret `{unused}` is declared but never used",
                path=f"/secrets/{index}",
                hint=f"remove it, or refer to it as ${{secret:{unused}}} in an activity",
                severity=Severity.WARNING,
            )


def _references(value: JsonValue, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        # A text may name a secret twice; one finding is enough.
        yield from ((name, path) for name in dict.fromkeys(_SECRET.findall(value)))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _references(item, f"{path}/{index}")
    elif isinstance(value, dict):
        for key, member in value.items():
            if key not in _PROSE_FIELDS:
                yield from _references(member, path + json_pointer((key,)))


def _is_below(path: str, places: frozenset[str]) -> bool:
    while path:
        if path in places:
            return True
        path = path.rpartition("/")[0]
    return False
