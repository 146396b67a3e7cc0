"""All checks of a workflow document, and loading: from text to findings and a compiled workflow.

Above it: the command line, the operations that accept documents, and the runtime's definition cache. Below it: the
checks (`checks.shape.document`, `checks.graph`, `checks.edges`, `checks.expressions`, `checks.types`),
`source.document`, and `build.workflow`. Every check looks at the parts it understands, even when another check found
mistakes, so that an author sees all of them at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from penstock.base.errors import Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.base.limits import FINDINGS_MAX
from penstock.definitions.agents.expansion import expanded, source_path
from penstock.definitions.build.workflow import build_workflow
from penstock.definitions.checks.agents import agent_findings
from penstock.definitions.checks.edges import edge_findings
from penstock.definitions.checks.exposure import exposure_findings
from penstock.definitions.checks.expressions import expression_findings
from penstock.definitions.checks.governance import governance_findings
from penstock.definitions.checks.graph import graph_findings
from penstock.definitions.checks.named_schemas import named_schemas_of, reference_findings, with_named_schemas
from penstock.definitions.checks.shape.document import schema_findings
from penstock.definitions.checks.triggers import trigger_findings
from penstock.definitions.checks.types import type_findings
from penstock.definitions.model import Workflow
from penstock.definitions.nodes import kind_named
from penstock.definitions.outline.document import Outline, outline_of
from penstock.definitions.outline.jq_leaves import collect_leaves
from penstock.definitions.outline.reach import graph_of
from penstock.definitions.schemas.references import NamedSchema, SchemaReference
from penstock.definitions.source.document import SourceDocument, read_source
from penstock.definitions.source.findings import Finding, NameSuggestions, Position, Severity

__all__ = [
    "Checked",
    "ExtraCheck",
    "FindSchema",
    "Loaded",
    "check_source",
    "load_workflow",
    "validate_document",
    "validate_source",
]

ExtraCheck: TypeAlias = Callable[[JsonObject], Iterable[Finding]]
FindSchema: TypeAlias = Callable[[SchemaReference], NamedSchema | None]
# After one of these findings the document is not understood well enough for any other check.
_SCHEMA_TODO = "put it into the folder `schemas`, as NAME@VERSION.yaml"
_FATAL_CODES = frozenset({"NOT_A_WORKFLOW", "DOCUMENT_TOO_DEEP"})
# Findings that may be wrong while a node that cannot be read is missing from the graph.
_CONSEQUENCES = frozenset({"DEAD_END", "END_COUNT", "NO_END", "START_COUNT", "UNREACHABLE_NODE", "UNKNOWN_TARGET"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The value of a text and its findings; `document` is `None` when the text could not be read."""

    document: JsonValue
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A compiled workflow, or None when a finding is an error."""

    workflow: Workflow | None
    findings: tuple[Finding, ...]


def validate_document(document: JsonValue) -> tuple[Finding, ...]:
    """Return everything that is wrong with a document, in document order. The findings have no positions."""
    found = list(schema_findings(document))
    if isinstance(document, dict) and not _has_fatal(found):
        found.extend(agent_findings(document))
        others = _other_findings(expanded(document))
        # What is wrong with a node of an agent is wrong with the part of the block that it stands for.
        found.extend(replace(finding, path=source_path(document, finding.path)) for finding in others)
    ordered = sorted(dict.fromkeys(found), key=lambda finding: (_order(document, finding.path), finding.code))
    return tuple(ordered if len(ordered) <= FINDINGS_MAX else _first_of_many(ordered))


def validate_source(text: str, *, file: str | None = None) -> tuple[Finding, ...]:
    """Return everything that is wrong with a JSON or YAML text; each finding has its line and column."""
    return check_source(text, file=file).findings


def check_source(
    text: str,
    *,
    file: str | None = None,
    extra_check: ExtraCheck | None = None,
    find_schema: FindSchema | None = None,
) -> Checked:
    """Read and check a text; for callers that also need the document.

    `find_schema` finds schemas by name; the document has them in place of the references to them.

    `extra_check` adds findings that need knowledge from outside the document, such as which workflows exist. It is not
    called for a document with a fatal finding.
    """
    source = read_source(text, file=file)
    if not isinstance(source, SourceDocument):
        return Checked(document=None, findings=source)
    value, missing = _filled_in(source.value, find_schema)
    found = validate_document(value)
    if missing:
        found = (*missing, *(finding for finding in found if finding.code != "SCHEMA_NOT_RESOLVED"))
    if extra_check is not None and isinstance(value, dict) and not _has_fatal(found):
        more = extra_check(value)
        found = (*found, *(replace(item, path=source_path(value, item.path)) for item in more))
    placed = [replace(finding, position=_position(source.positions, finding.path), file=file) for finding in found]
    placed.sort(key=lambda finding: finding.position or Position(0, 0))
    return Checked(document=value, findings=tuple(placed))


def load_workflow(
    text: str,
    *,
    file: str | None = None,
    extra_check: ExtraCheck | None = None,
    find_schema: FindSchema | None = None,
) -> Loaded:
    """Read, check and compile a workflow; warnings do not stop it."""
    checked = check_source(text, file=file, extra_check=extra_check, find_schema=find_schema)
    has_errors = any(finding.severity is Severity.ERROR for finding in checked.findings)
    if has_errors or not isinstance(checked.document, dict):
        return Loaded(workflow=None, findings=checked.findings)
    try:
        return Loaded(workflow=build_workflow(checked.document), findings=checked.findings)
    except Rejected as refusal:
        # The compilers are stricter than the checks. That is a gap in the checks, and must not crash a caller.
        finding = Finding(code=refusal.code, message=refusal.message, hint=refusal.hint, file=file)
        return Loaded(workflow=None, findings=(*checked.findings, finding))


def _filled_in(document: JsonValue, find_schema: FindSchema | None) -> tuple[JsonValue, tuple[Finding, ...]]:
    """The document with the schemas that it names, or why they cannot be filled in."""
    named = () if find_schema is None else named_schemas_of(document)
    if find_schema is None or not named or not isinstance(document, dict):
        return document, ()
    found = {item.text: schema for item in named if (schema := find_schema(item)) is not None}
    problems = reference_findings(document, named, found, todo=_SCHEMA_TODO)
    return (document, problems) if problems else (with_named_schemas(document, found), ())


def _has_fatal(findings: Iterable[Finding]) -> bool:
    return any(finding.code in _FATAL_CODES for finding in findings)


def _other_findings(document: JsonObject) -> Iterable[Finding]:
    outline, suggestions = outline_of(document), NameSuggestions()
    graph, collected = graph_of(outline, suggestions), collect_leaves(document, outline)
    routes = (*graph_findings(graph), *edge_findings(document, outline, suggestions))
    if _is_incomplete(document, outline):
        yield from (finding for finding in routes if finding.code not in _CONSEQUENCES)
    else:
        yield from routes
    yield from expression_findings(document, graph, collected)
    yield from type_findings(document, outline, collected, suggestions)
    if outline.native:
        yield from trigger_findings(document)
        yield from exposure_findings(document)
        yield from governance_findings(document)
        for node in outline.nodes:
            kind = kind_named(node.type)
            if kind is not None and kind.check is not None:
                yield from kind.check(node)


def _is_incomplete(document: JsonObject, outline: Outline) -> bool:
    """Whether the outline lacks a node of the root, because that node has no id or no type."""
    nodes = document.get("nodes")
    return not isinstance(nodes, list) or len(nodes) != sum(node.body == "" for node in outline.nodes)


def _first_of_many(ordered: list[Finding]) -> Iterable[Finding]:
    """The first `FINDINGS_MAX` findings, errors before warnings, after one that says how many there are."""
    yield Finding(
        code="TOO_MANY_FINDINGS",
        message=f"there are {len(ordered):,} findings; these are the first {FINDINGS_MAX:,}",
        hint="fix these first, and check again",
    )
    errors = [finding for finding in ordered if finding.severity is Severity.ERROR][:FINDINGS_MAX]
    warnings = [finding for finding in ordered if finding.severity is not Severity.ERROR]
    kept = {*errors, *warnings[: FINDINGS_MAX - len(errors)]}
    yield from (finding for finding in ordered if finding in kept)


def _order(document: JsonValue, path: str) -> tuple[int, ...]:
    """A sort key for a JSON pointer: its position in the document. A missing member sorts before those that exist."""
    order: list[int] = []
    value = document
    for part in path.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            order.append(int(name))
            value = value[int(name)]
        elif isinstance(value, dict) and name in value:
            order.append(list(value).index(name))
            value = value[name]
        else:
            order.append(-1)
            break
    return tuple(order)


def _position(positions: Mapping[str, Position], path: str) -> Position | None:
    """The position of a path, or of its nearest ancestor that is in the text."""
    while path not in positions:
        if not path:
            return None
        path = path.rpartition("/")[0]
    return positions[path]
