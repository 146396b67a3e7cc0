"""Checks of the governance block: scopes that no key can have, and guards that nothing enforces.

A guard that is not enforced is refused, because its author relies on it. Descriptions (`risk`, `data`) are accepted,
because they promise nothing. The approvers of a node are checked with the node.

Above it: `validate`, for native documents. Below it: `base.scopes`, which has the grammar of scopes. It does not check
whether any key has a scope.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from penstock.base.json import JsonObject, JsonValue
from penstock.base.scopes import SCOPE_HINT, is_scope, likely_scope
from penstock.definitions.source.findings import Finding, Severity, not_enforced

__all__ = ["governance_findings", "misspelt_scopes"]

_ASK = "ask with an `interrupt` node and `approvers` before the step that does harm"
# Guards that no release enforces yet: the value that requires nothing, and what to do instead.
_UNENFORCED: dict[str, tuple[JsonValue, str]] = {
    "confirm": (False, _ASK),
    "draft": ("never", _ASK),
    "rate": (None, "limit keys with `limits.write_per_minute`, or the calls in the step itself"),
    "approvers": (None, "write `approvers` at the `interrupt` node that asks them"),
}


def governance_findings(document: JsonObject) -> Iterator[Finding]:
    """Yield everything that is wrong with the governance of a document."""
    governance = document.get("governance")
    for name, (nothing, hint) in _UNENFORCED.items():
        if isinstance(governance, dict) and governance.get(name, nothing) != nothing:
            yield not_enforced(f"`{name}` of the governance", f"/governance/{name}", hint)
    for path, scope in _scopes(document):
        if not is_scope(scope):
            message = f"{scope[:100]!r} is not a scope"
            yield Finding(code="SCOPE_INVALID", message=message, path=path, hint=SCOPE_HINT)


def misspelt_scopes(document: JsonObject, known: Iterable[str]) -> Iterator[Finding]:
    """Yield warnings about unknown scopes that resemble a known one."""
    listed = frozenset(known)
    for path, scope in _scopes(document):
        meant = likely_scope(scope, listed) if scope not in listed and is_scope(scope) else None
        if meant is not None:
            yield Finding(
                code="SCOPE_UNFAMILIAR",
                message=f"nothing else needs the scope {scope}, which is much like {meant}",
                path=path,
                hint=f"did you mean {meant}?",
                severity=Severity.WARNING,
            )


def _scopes(document: JsonObject) -> Iterator[tuple[str, str]]:
    governance = document.get("governance")
    listed = governance.get("scopes") if isinstance(governance, dict) else None
    for index, scope in enumerate(listed if isinstance(listed, list) else []):
        if isinstance(scope, str):
            yield f"/governance/scopes/{index}", scope
