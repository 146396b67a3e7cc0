"""Scopes in a document: each must be one that a key can have.

Above it: `validate`. Below it: `base.scopes`, which has the grammar. Whether anybody has the scope is not asked here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from penstock.base.json import JsonObject
from penstock.base.scopes import SCOPE_HINT, is_scope, likely_scope
from penstock.definitions.source.findings import Finding, Severity

if TYPE_CHECKING:
    from penstock.definitions.outline.document import Outline

__all__ = ["misspelt_scopes", "scope_findings"]


def scope_findings(document: JsonObject, outline: Outline) -> Iterator[Finding]:
    """Scopes that no key could have."""
    for place, scope in _scopes(document):
        if not is_scope(scope):
            yield _invalid(f"{scope[:100]!r} is not a scope", place)
    for node in outline.nodes:
        approvers = node.fields.get("approvers") if node.type == "interrupt" else None
        group = approvers.get("group") if isinstance(approvers, dict) else None
        if isinstance(group, str) and not is_scope(f"approve:{group}"):
            told = f"nobody can be in the group {group[:100]!r}: approve:{group[:100]} is not a scope"
            yield _invalid(told, f"{node.field_path('approvers')}/group")


def _invalid(message: str, path: str) -> Finding:
    return Finding(code="SCOPE_INVALID", message=message, path=path, hint=SCOPE_HINT)


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
