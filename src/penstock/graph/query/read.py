"""Reading a file of queries: text in, syntax trees or all findings out.

Above it: everything that has queries as text. Below it: `parser`. Types are checked by `typing`.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.definitions.source.findings import Finding
from penstock.graph.query.parser import parse_queries
from penstock.graph.query.tree import Query

__all__ = ["QueryReading", "read_queries"]


@dataclass(frozen=True, slots=True)
class QueryReading:
    """The queries of a file; empty if there are findings, which are all errors."""

    queries: tuple[Query, ...]
    findings: tuple[Finding, ...]


def read_queries(text: str) -> QueryReading:
    """Parse a file of queries, whose names have to differ."""
    parsed = parse_queries(text)
    findings = list(parsed.findings)
    first: dict[str, Query] = {}
    for query in parsed.queries:
        other = first.setdefault(query.name, query)
        if other is not query:
            line = f" in line {other.position.line}" if other.position else ""
            message = f"the query `{query.name}` already exists{line}"
            findings.append(
                Finding(code="DUPLICATE_QUERY", message=message, hint="rename one", position=query.position)
            )
    return QueryReading(() if findings else parsed.queries, tuple(findings))
