"""A tool of another server as callers see it: its status, its texts, and what a person should know about them.

Above it: `operations`, `refusing`. Below it: nothing but data.
"""

from __future__ import annotations

import json
import unicodedata
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from penstock.base.json import JsonObject
from penstock.operations.catalogue.fields import instant
from penstock.operations.runs.imported_tools import UPSTREAM_PREFIX
from penstock.runtime.upstreams.tool_registry import ToolReview, difference
from penstock.runtime.upstreams.tools import ImportRules, UpstreamTool

__all__ = ["ServerName", "ToolName", "UpstreamToolView", "operation_name", "tool_view"]

# Categories of invisible characters: direction marks, joiners, tags, and unassigned ones.
_UNSEEN = ("Cf", "Co", "Cn")
# Longer descriptions get a warning, because a person is to read them before accepting.
_WORDS_MAX = 2_000

ServerName = Annotated[
    str, Meta(description="The server, by its name in the settings.", max_length=200, examples=["shop"])
]
ToolName = Annotated[
    str, Meta(description="The tool, by the name that its server gives it.", max_length=200, examples=["search"])
]


class UpstreamToolView(msgspec.Struct, frozen=True, kw_only=True):
    """A tool of a server: its status and its texts. What the server claims about it is shown, not believed."""

    name: str
    status: str
    """pinned (in the catalogue), changed or new (quarantined), refused (quarantined, and not waiting for a decision),
    gone (no longer listed), excluded (by the settings)."""
    description: str | None = None
    hash: str | None = None
    """The hash of the tool as the server describes it now."""
    accepted_hash: str | None = None
    accepted_by: str | None = None
    accepted_at: str | None = None
    refused_hash: str | None = None
    """The hash of the refused description; the tool waits for a decision again when its description changes."""
    refused_by: str | None = None
    refused_at: str | None = None
    refused_because: str | None = None
    difference: dict[str, Any] | None = None
    """For a changed tool: each changed member, as accepted and at present."""
    warnings: list[str] = []
    """What a person who accepts it should know: its texts contain invisible characters, or are very long."""
    operation: str
    """Its name in the catalogue."""
    title: str | None = None
    input_schema: dict[str, Any] | None = None
    output_schema: dict[str, Any] | None = None
    claims: dict[str, Any] | None = None
    """The server's own hints."""


def operation_name(rules: ImportRules, tool: str) -> str:
    """Return the name of a tool in the catalogue."""
    return f"{UPSTREAM_PREFIX}{rules.prefix}.{tool}"


def _warnings(tool: UpstreamTool) -> list[str]:
    """Return warnings about what a person does not notice when reading a tool's description."""
    text = json.dumps(msgspec.to_builtins(tool), ensure_ascii=False)
    found = [] if tool.problem is None else [f"it cannot be accepted: {tool.problem}"]
    if any(unicodedata.category(character) in _UNSEEN for character in text):
        found.append("there are characters in it that are not shown; a model reads them")
    if len(tool.description or "") > _WORDS_MAX:
        found.append(f"its description has {len(tool.description or '')} characters; read all of it")
    return found


def tool_view(item: ToolReview, rules: ImportRules) -> UpstreamToolView:
    """Return a tool as callers see it."""
    shown = item.seen or (item.pin.tool if item.pin else None)
    pin = item.pin
    refusal = item.refusal
    return UpstreamToolView(
        name=item.name,
        status=item.status,
        operation=operation_name(rules, item.name),
        title=shown.title if shown else None,
        description=shown.description if shown else None,
        input_schema=shown.input_schema if shown else None,
        output_schema=shown.output_schema if shown else None,
        claims=(shown.annotations or None) if shown else None,
        hash=item.seen_hash,
        accepted_hash=pin.hash if pin else None,
        accepted_by=pin.accepted_by if pin else None,
        accepted_at=instant(pin.accepted_at) if pin else None,
        refused_hash=refusal.hash if refusal else None,
        refused_by=refusal.refused_by if refusal else None,
        refused_at=instant(refusal.refused_at) if refusal else None,
        refused_because=refusal.reason if refusal else None,
        difference=_difference(item),
        warnings=_warnings(shown) if shown else [],
    )


def _difference(item: ToolReview) -> JsonObject | None:
    """Return what the server says otherwise than it was accepted, if it does."""
    if item.status not in ("changed", "refused") or item.pin is None or item.seen is None:
        return None
    return difference(item.pin.tool, item.seen)
