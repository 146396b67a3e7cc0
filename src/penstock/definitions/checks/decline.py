"""Checks that the answer for declining a question is one that the question takes.

Above it: `validate`. Below it: `outline.document`, `schemas.compiled`.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.definitions.outline.document import Outline
from penstock.definitions.schemas.compiled import SchemaProblem, compile_schema, violations
from penstock.definitions.source.findings import Finding

__all__ = ["decline_findings"]

_HINT = "write an answer that fits `answer`, such as false for what the question asks"


def decline_findings(outline: Outline) -> Iterator[Finding]:
    """Every `decline` that no question would take."""
    for node in outline.nodes:
        declared = node.fields.get("decline") if node.type == "interrupt" else None
        if declared is None:
            continue
        schema = node.fields.get("answer", node.fields.get("resume_schema", {"type": "object"}))
        compiled = compile_schema(schema) if isinstance(schema, dict) else None
        if compiled is None or isinstance(compiled, SchemaProblem):
            continue  # what is wrong with the schema is said elsewhere
        for found in violations(compiled, declared):
            told = f"`decline` of `{node.id}` does not fit `answer`: {found.message}"
            path = f"{node.field_path('decline')}{found.instance_path}"
            yield Finding(code="DECLINE_INVALID", message=told, path=path, hint=_HINT)
