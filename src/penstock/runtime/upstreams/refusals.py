"""Refusals of tools: what somebody looked at and did not accept, and why.

A refusal is of the tool as its server described it, by its hash. When the server describes it otherwise, the tool waits
for a decision again.

Above it: `tool_registry`. Below it: rows of the platform port.
"""

from __future__ import annotations

import msgspec

from penstock.base.json import JsonObject
from penstock.runtime.ports.platform import ResourceRow

__all__ = ["REFUSALS", "Refusal", "refusal_body", "refusal_of", "refuses", "withdrawn_body"]

REFUSALS = "upstream_refusal"
_WITHDRAWN = "withdrawn"


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that somebody did not accept as it was."""

    server: str
    tool: str
    hash: str
    """What was refused; empty for the tool in any form, if the record cannot be read."""
    reason: str
    refused_by: str | None
    refused_at: int


def refusal_body(server: str, tool: str, refused_hash: str, reason: str) -> JsonObject:
    """Return what is stored of a refusal."""
    return {"server": server, "tool": tool, "hash": refused_hash, "reason": reason}


def withdrawn_body() -> JsonObject:
    """Return what is stored once the tool was accepted after all."""
    return {_WITHDRAWN: True}


def refuses(refusal: Refusal | None, seen_hash: str | None) -> bool:
    """Whether a refusal is of a tool as its server describes it now."""
    return refusal is not None and refusal.hash in ("", seen_hash)


def refusal_of(row: ResourceRow) -> Refusal | None:
    """Return the refusal that a row holds; None if it was withdrawn. One that cannot be read refuses every form."""
    if row.body.get(_WITHDRAWN) is True:
        return None
    server, _, tool = row.resource_id.partition("/")
    refused_hash, reason = row.body.get("hash"), row.body.get("reason")
    return Refusal(
        server=server,
        tool=tool,
        hash=refused_hash if isinstance(refused_hash, str) else "",
        reason=reason if isinstance(reason, str) else "the record of its refusal cannot be read",
        refused_by=row.updated_by,
        refused_at=row.updated_at,
    )
