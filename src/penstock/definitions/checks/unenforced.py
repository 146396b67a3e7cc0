"""What a document may declare and nothing acts on yet: refused, because whoever declares a guard relies on it.

Descriptions (`risk`, `data`) pass: they promise nothing. Documents in the published format are taken as they are; they
have no such fields of ours.

Above it: `validate`. What a node declares in vain is checked with the node. What is enforced one day leaves this list.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.source.findings import Finding, not_enforced

__all__ = ["unenforced_findings"]

_ASK = "ask with an `interrupt` node and `approvers` before the step that does harm"
# Of the gate: what it says, the value with which it asks for nothing, and what to do instead.
_GOVERNANCE: dict[str, tuple[JsonValue, str]] = {
    "confirm": (False, _ASK),
    "draft": ("never", _ASK),
    "rate": (None, "limit keys with `limits.write_per_minute`, or the calls in the step itself"),
    "approvers": (None, "write `approvers` at the `interrupt` node that asks them"),
}


def unenforced_findings(document: JsonObject) -> Iterator[Finding]:
    """Every guard of a document that would not guard anything."""
    governance = document.get("governance")
    for name, (nothing, hint) in _GOVERNANCE.items():
        if isinstance(governance, dict) and governance.get(name, nothing) != nothing:
            yield not_enforced(f"`{name}` of the governance", f"/governance/{name}", hint)
