"""Reading a schema: text in, a schema or all findings out.

Above it: everything that has a schema as text. Below it: `parser` and `resolve`.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.base import limits
from penstock.definitions.source.findings import Finding, Position, Severity
from penstock.graph.schema.model import Schema
from penstock.graph.schema.parser import parse_declarations
from penstock.graph.schema.resolve import resolve

__all__ = ["SchemaReading", "read_schema"]


@dataclass(frozen=True, slots=True)
class SchemaReading:
    """A schema, or None if there are errors; `findings` has warnings, too."""

    schema: Schema | None
    findings: tuple[Finding, ...]


def read_schema(text: str) -> SchemaReading:
    """Parse and check a schema."""
    parsed = parse_declarations(text)
    resolved = resolve(parsed.declarations)
    # Names of declarations that could not be read would all be unknown.
    findings = parsed.findings or resolved.findings
    findings = tuple(sorted(findings, key=lambda each: each.position or Position(1, 1)))
    broken = any(each.severity is Severity.ERROR for each in findings)
    return SchemaReading(None if broken else resolved.schema, findings[: limits.GRAPH_FINDINGS_MAX])
