"""What a document may declare and nothing acts on yet: refused, because whoever declares a guard relies on it.

Descriptions (`risk`, `data`) pass: they promise nothing. Documents in the published format are taken as they are; they
have no such fields of ours.

Above it: `validate`. Below it: `outline.document`. What is enforced one day leaves this list.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.outline.document import Outline
from penstock.definitions.source.findings import Finding

__all__ = ["unenforced_findings"]

_CODE = "NOT_ENFORCED"
_ASK = "ask with an `interrupt` node and `approvers` before the step that does harm"
# Of the gate: what it says, the value with which it asks for nothing, and what to do instead.
_GOVERNANCE: dict[str, tuple[JsonValue, str]] = {
    "confirm": (False, _ASK),
    "draft": ("never", _ASK),
    "rate": (None, "limit keys with `limits.write_per_minute`, or the calls in the step itself"),
    "approvers": (None, "write `approvers` at the `interrupt` node that asks them"),
}


def unenforced_findings(document: JsonObject, outline: Outline) -> Iterator[Finding]:
    """Every guard of a document that would not guard anything."""
    governance = document.get("governance")
    for name, (nothing, hint) in _GOVERNANCE.items():
        if isinstance(governance, dict) and governance.get(name, nothing) != nothing:
            yield _finding(f"`{name}` of the governance", f"/governance/{name}", hint)
    for node in outline.nodes:
        approvers = node.fields.get("approvers") if node.type == "interrupt" else None
        if not isinstance(approvers, dict):
            continue
        path = node.field_path("approvers")
        if "users" in approvers:
            hint = "name a `group`: keys with the scope `approve:GROUP` belong to it"
            yield _finding("`users` of the approvers", f"{path}/users", hint)
        if approvers.get("count", 1) != 1:
            yield _finding("`count` of the approvers", f"{path}/count", "ask one group after the other, in two nodes")


def _finding(what: str, path: str, hint: str) -> Finding:
    return Finding(code=_CODE, message=f"{what} is not enforced by this release", path=path, hint=hint)
