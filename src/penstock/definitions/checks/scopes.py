"""Scopes in a document: each must be one that a key can have.

Above it: `validate`. Below it: `base.scopes`, which has the grammar. The groups of approvers are checked with the node
that names them. Whether anybody has the scope is not asked here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from penstock.base.json import JsonObject
from penstock.base.scopes import SCOPE_HINT, is_scope, likely_scope
from penstock.definitions.source.findings import Finding, Severity

__all__ = ["misspelt_scopes", "scope_findings"]


def scope_findings(document: JsonObject) -> Iterator[Finding]:
    """Scopes that no key could have."""
    for place, scope in _scopes(document):
        if not is_scope(scope):
            message = f"{scope[:100]!r} is not a scope"
            yield Finding(code="SCOPE_INVALID", message=message, path=place, hint=SCOPE_HINT)


def misspelt_scopes(document: JsonObject, known: Iterable[str]) -> Iterator[Finding]:
    """Warnings of scopes that are like one of those that are known, and none of them."""
    listed = frozenset(known)
    for place, scope in _scopes(document):
        meant = likely_scope(scope, listed) if scope not in listed and is_scope(scope) else None
        if meant is not None:
            told = f"nothing else needs the scope {scope}, which is much like {meant}"
            yield Finding(
                code="SCOPE_UNFAMILIAR",
                message=told,
                path=place,
                hint=f"did you mean {meant}?",
                severity=Severity.WARNING,
            )


def _scopes(document: JsonObject) -> Iterator[tuple[str, str]]:
    governance = document.get("governance")
    listed = governance.get("scopes") if isinstance(governance, dict) else None
    for index, scope in enumerate(listed if isinstance(listed, list) else []):
        if isinstance(scope, str):
            yield f"/governance/scopes/{index}", scope
