"""Refusals of tools: what somebody looked at and did not accept, and why.

A refusal is of the tool as its server described it, by its hash. When the server describes it otherwise, the tool waits
for a decision again.

Above it: `tool_registry`. Below it: rows of the platform port.
"""

from __future__ import annotations

import msgspec

from penstock.base.json import JsonObject
from penstock.runtime.ports.platform import ResourceRow

__all__ = ["REFUSALS", "Refusal", "refusal_body", "refusal_of", "withdrawn_body"]

REFUSALS = "upstream_refusal"
_WITHDRAWN = "withdrawn"


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that somebody did not accept as it was."""

    server: str
    tool: str
    hash: str
    reason: str
    refused_by: str | None
    refused_at: int


def refusal_body(server: str, tool: str, refused_hash: str, reason: str) -> JsonObject:
    """Return what is stored of a refusal."""
    return {"server": server, "tool": tool, "hash": refused_hash, "reason": reason}


def withdrawn_body() -> JsonObject:
    """Return what is stored once the tool was accepted after all."""
    return {_WITHDRAWN: True}


def refusal_of(row: ResourceRow) -> Refusal | None:
    """Return the refusal that a row holds; None if it was withdrawn."""
    if row.body.get(_WITHDRAWN) is True:
        return None
    server, tool, refused_hash, reason = (str(row.body.get(name)) for name in ("server", "tool", "hash", "reason"))
    return Refusal(
        server=server,
        tool=tool,
        hash=refused_hash,
        reason=reason,
        refused_by=row.updated_by,
        refused_at=row.updated_at,
    )
