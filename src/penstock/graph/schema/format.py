"""The formatter of the schema language.

One declaration after the other with an empty line between them (edges without a body may stand together), one
property or constraint on a line, two spaces of indentation. Comments are kept. Formatting what was formatted changes
nothing, and never changes the meaning.

Above it: the command line, editors. Below it: `parser`, `syntax.layout`.
"""

from __future__ import annotations

from penstock.definitions.source.findings import Finding
from penstock.graph.schema.model import (
    Annotation,
    AnnotationValue,
    Cardinality,
    Check,
    Constraint,
    Range,
)
from penstock.graph.schema.parser import parse_declarations
from penstock.graph.schema.tree import (
    Declaration,
    EdgeDeclaration,
    InterfaceDeclaration,
    Member,
    NodeDeclaration,
    PropertyDeclaration,
)
from penstock.graph.schema.types import written_fraction, written_type
from penstock.graph.syntax.layout import Layout
from penstock.graph.syntax.tokens import quoted, tokenize

__all__ = ["format_schema"]


def format_schema(text: str) -> str | tuple[Finding, ...]:
    """Format a schema, or say why it cannot be read."""
    parsed = parse_declarations(text)
    if parsed.findings:
        return parsed.findings
    layout = Layout(tokenize(text))
    before: Declaration | None = None
    for declaration in parsed.declarations:
        if not _adjacent(before, declaration):
            layout.blank(at=declaration.position)
        _declaration(declaration, layout)
        before = declaration
    return layout.text()


def _adjacent(before: Declaration | None, declaration: Declaration) -> bool:
    """Whether an edge stands on the line behind an edge without a body, and may stay there."""
    if not isinstance(before, EdgeDeclaration) or not isinstance(declaration, EdgeDeclaration) or before.members:
        return False
    if before.position is None or declaration.position is None:
        return False
    return declaration.position.line - before.position.line == 1


def _declaration(declaration: Declaration, layout: Layout) -> None:
    head = _head(declaration)
    if not declaration.members:
        # A node type needs its braces; comments inside them would be lost without a block.
        if isinstance(declaration, EdgeDeclaration):
            layout.line(head, at=declaration.position)
            return
        with layout.block(f"{head} {{", at=declaration.position):
            pass
        return
    with layout.block(f"{head} {{", at=declaration.position):
        for member in declaration.members:
            layout.line(_member(member), at=member.position)


def _head(declaration: Declaration) -> str:
    match declaration:
        case InterfaceDeclaration():
            return f"interface {declaration.name}"
        case NodeDeclaration():
            names = ", ".join(each.text for each in declaration.implements)
            implements = f"implements {names}" if names else ""
            return _joined("node", declaration.name, *map(_annotation, declaration.annotations), implements)
        case EdgeDeclaration():
            ends = f"{declaration.name}: {declaration.source.text} -> {declaration.target.text}"
            card = _cardinality(declaration.cardinality)
            return _joined("edge", ends, card, *map(_annotation, declaration.annotations))


def _joined(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def _cardinality(cardinality: Cardinality | None) -> str:
    if cardinality is None:
        return ""
    maximum = "" if cardinality.maximum is None else str(cardinality.maximum)
    return f"@card({cardinality.minimum}..{maximum})"


def _member(member: Member) -> str:
    if isinstance(member, PropertyDeclaration):
        written = f"{member.name}: {written_type(member.type, nullable=member.nullable)}"
        return _joined(written, *map(_annotation, member.annotations))
    return _constraint(member.constraint)


def _constraint(constraint: Constraint) -> str:
    name = type(constraint).__name__.lower()
    match constraint:
        case Range():
            return f"@range({constraint.property}, {_number(constraint.minimum)}..{_number(constraint.maximum)})"
        case Check():
            return f"@check({constraint.property}, {quoted(constraint.pattern)})"
        case _:
            return f"@{name}({', '.join(constraint.properties)})"


def _number(number: float | int | None) -> str:
    if number is None:
        return ""
    return written_fraction(number) if isinstance(number, float) else str(number)


def _annotation(annotation: Annotation) -> str:
    if annotation.value is None:
        return f"@{annotation.name}"
    options = "".join(f", {name}={_value(value)}" for name, value in annotation.options)
    return f"@{annotation.name}({_value(annotation.value)}{options})"


def _value(value: AnnotationValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quoted(value)
    return _number(value)
