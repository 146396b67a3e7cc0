"""Workflow documents as text: JSON or YAML, read into one value with the position of every part.

Skeleton: the final version adds YAML and positions.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.base.json import JsonValue
from penstock.definitions.findings import Finding, Position

__all__ = ["SourceDocument", "read_source"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceDocument:
    """A document as read."""

    value: JsonValue
    positions: Mapping[str, Position]
    file: str | None


def read_source(text: str, *, file: str | None = None) -> SourceDocument | tuple[Finding, ...]:
    """Read a document."""
    try:
        return SourceDocument(value=json.loads(text), positions={}, file=file)
    except json.JSONDecodeError as error:
        return (Finding(code="SYNTAX_ERROR", message=error.msg, position=Position(error.lineno, error.colno), file=file),)
