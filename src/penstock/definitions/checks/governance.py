"""Checks of the governance block: scopes that no key can have, invalid rates, and groups without members.

The approvers of a node are checked with the node, those of held calls here.

Above it: `validate`, for native documents. Below it: `base.scopes`, which has the grammar of scopes. It does not check
whether any key has a scope.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from penstock.base.json import JsonObject
from penstock.base.scopes import SCOPE_HINT, is_scope, likely_scope
from penstock.definitions.node_parts.approvers import approver_findings
from penstock.definitions.source.findings import Finding, Severity
from penstock.definitions.start_needs import start_rate

__all__ = ["governance_findings", "misspelt_scopes"]

_RATE_HINT = "write, for example, `rate: {limit: 10, per: 1h}`"


def governance_findings(document: JsonObject) -> Iterator[Finding]:
    """Yield everything that is wrong with the governance of a document."""
    governance = document.get("governance")
    if isinstance(governance, dict) and governance.get("rate") is not None and start_rate(document) is None:
        message = "the rate needs a `limit` of at least 1 and a `per` of at least 1 ms"
        yield Finding(code="RATE_INVALID", message=message, path="/governance/rate", hint=_RATE_HINT)
    approvers = governance.get("approvers") if isinstance(governance, dict) else None
    if isinstance(approvers, dict):
        yield from approver_findings(approvers, "/governance/approvers")
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
                message=f"no operation uses the scope {scope}, which is similar to {meant}",
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
