"""The parser of the schema language: text to declarations, with all syntax errors of the text at once.

    file       = (interface | node | edge)*
    interface  = "interface" Type "{" property* "}"
    node       = "node" Type annotation* ["implements" Type ("," Type)*] "{" (property | constraint)* "}"
    edge       = "edge" Type ":" Type "->" Type ["@card" "(" int ".." [int] ")"] annotation*
                 ["{" (property | constraint)* "}"]
    property   = name ":" type annotation*
    constraint = "@" ("key" | "unique" | "index" | "range" | "check") "(" argument ("," argument)* ")"
    annotation = "@" name ["(" (literal | name) ("," name "=" literal)* ")"]

Comments are `// …` and `/* … */`. Space and line ends mean nothing, except that the parser continues at the next line
after an error.

Above it: `resolve`, `read`. Below it: `tree`, `types`, `syntax`. It resolves no names.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.base import limits
from penstock.definitions.source.findings import Finding, Position
from penstock.graph.schema.model import (
    Annotation,
    AnnotationValue,
    Cardinality,
    Check,
    Constraint,
    Index,
    Key,
    Range,
    Unique,
)
from penstock.graph.schema.tree import (
    ConstraintDeclaration,
    Declaration,
    EdgeDeclaration,
    InterfaceDeclaration,
    Member,
    Name,
    NodeDeclaration,
    PropertyDeclaration,
)
from penstock.graph.schema.types import read_fraction, read_type, read_whole_number
from penstock.graph.syntax.cursor import Cursor, Stuck
from penstock.graph.syntax.tokens import TokenKind, tokenize

__all__ = ["CONSTRAINTS", "DECLARATIONS", "ParsedSchema", "parse_declarations"]

DECLARATIONS = ("interface", "node", "edge")
CONSTRAINTS = ("key", "unique", "index", "range", "check")


@dataclass(frozen=True, slots=True)
class ParsedSchema:
    """The declarations that could be read, and what is wrong with the text."""

    declarations: tuple[Declaration, ...]
    findings: tuple[Finding, ...]


def parse_declarations(text: str) -> ParsedSchema:
    """Parse a schema. If there are findings, declarations may be missing."""
    parser = _Parser(Cursor(tokenize(text)))
    declarations = parser.file()
    findings = sorted(parser.cursor.findings, key=lambda each: each.position or Position(1, 1))
    return ParsedSchema(declarations, tuple(findings[: limits.GRAPH_FINDINGS_MAX]))


def _over_properties(name: str, properties: tuple[str, ...]) -> Key | Unique | Index:
    match name:
        case "key":
            return Key(properties)
        case "unique":
            return Unique(properties)
        case _:
            return Index(properties)


class _Parser:
    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor

    def file(self) -> tuple[Declaration, ...]:
        found: list[Declaration] = []
        cursor = self.cursor
        while not cursor.at_end and len(cursor.findings) < limits.GRAPH_FINDINGS_MAX:
            start = cursor.mark
            try:
                cursor.count("types", limits.GRAPH_TYPES_MAX)
                found.append(self._declaration())
            except Stuck:
                if cursor.findings[-1].code == "TOO_MANY":
                    break
                cursor.skip_declaration(start, DECLARATIONS)
        return tuple(found)

    def _declaration(self) -> Declaration:
        cursor = self.cursor
        position = cursor.position
        if cursor.take_word("interface"):
            name = self._type_name("an interface")
            return InterfaceDeclaration(name=name, members=self._members(), position=position)
        if cursor.take_word("node"):
            return self._node(position)
        if cursor.take_word("edge"):
            return self._edge(position)
        token = cursor.token
        hint = cursor.suggestions.hint(token.text, DECLARATIONS, otherwise="a declaration begins with")
        position_before = cursor.position
        if not cursor.at_word(*DECLARATIONS):
            cursor.advance()
        cursor.report(f"expected a declaration, not {token.shown}", hint, at=position_before)
        raise Stuck

    def _type_name(self, what: str) -> str:
        hint = "names of types begin with a capital letter"
        return self.cursor.expect_kind(TokenKind.TYPE, f"the name of {what}", hint).text

    def _used_type(self, what: str) -> Name:
        position = self.cursor.position
        return Name(self._type_name(what), position)

    def _node(self, position: Position) -> NodeDeclaration:
        name = self._type_name("a node type")
        annotations = self._annotations()
        implements: list[Name] = []
        if self.cursor.take_word("implements"):
            implements.append(self._used_type("an interface"))
            while self.cursor.take(","):
                implements.append(self._used_type("an interface"))
        return NodeDeclaration(
            name=name,
            annotations=annotations,
            implements=tuple(implements),
            members=self._members(),
            position=position,
        )

    def _edge(self, position: Position) -> EdgeDeclaration:
        cursor = self.cursor
        name = self._type_name("an edge type")
        cursor.expect(":", "after the name of an edge type")
        source = self._used_type("the node type at which the edges begin")
        cursor.expect("->", "between the node types of an edge")
        target = self._used_type("the node type at which the edges end")
        cardinality = self._cardinality() if cursor.at_kind(TokenKind.META) and cursor.token.text == "card" else None
        annotations = self._annotations()
        members = self._members() if cursor.at("{") else ()
        return EdgeDeclaration(
            name=name,
            source=source,
            target=target,
            cardinality=cardinality,
            annotations=annotations,
            members=members,
            position=position,
        )

    def _cardinality(self) -> Cardinality:
        cursor = self.cursor
        cursor.advance()
        cursor.expect("(", "after `@card`")
        minimum = read_whole_number(cursor, "the smallest number of edges")
        cursor.expect("..", "after the smallest number of edges")
        maximum = None if cursor.at(")") else read_whole_number(cursor, "the largest number of edges")
        cursor.expect(")", "after `@card(`")
        return Cardinality(minimum, maximum)

    # Bodies

    def _members(self) -> tuple[Member, ...]:
        self.cursor.expect("{", "at the beginning of the body")
        self.cursor.restart_count("properties of a type")
        return self.cursor.block(self._member, "the body")

    def _member(self) -> Member:
        cursor = self.cursor
        position = cursor.position
        if cursor.at_kind(TokenKind.META):
            if cursor.token.text not in CONSTRAINTS:
                cursor.unknown_word("a line of the body", tuple(f"@{name}" for name in CONSTRAINTS))
            return ConstraintDeclaration(self._constraint(), position)
        cursor.count("properties of a type", limits.GRAPH_PROPERTIES_MAX)
        hint = "names of properties begin with a small letter"
        name = cursor.expect_kind(TokenKind.NAME, "the name of a property", hint).text
        cursor.expect(":", "after the name of a property")
        value_type, nullable = read_type(cursor)
        annotations = self._annotations()
        if cursor.at(","):
            cursor.report("there are no commas between properties", "remove it")
            cursor.advance()
        return PropertyDeclaration(
            name=name, type=value_type, nullable=nullable, annotations=annotations, position=position
        )

    def _constraint(self) -> Constraint:
        cursor = self.cursor
        name = cursor.advance().text
        cursor.expect("(", f"after `@{name}`")
        constraint: Constraint
        if name == "range":
            constraint = self._range()
        elif name == "check":
            prop = self._property_name()
            cursor.expect(",", "after the property")
            constraint = Check(prop, cursor.expect_kind(TokenKind.STRING, "a regular expression in quotes").text)
        else:
            names = [self._property_name()]
            while cursor.take(","):
                names.append(self._property_name())
            constraint = _over_properties(name, tuple(names))
        cursor.expect(")", f"after `@{name}(`")
        return constraint

    def _property_name(self) -> str:
        return self.cursor.expect_kind(TokenKind.NAME, "the name of a property").text

    def _range(self) -> Range:
        cursor = self.cursor
        prop = self._property_name()
        cursor.expect(",", "after the property")
        minimum = None if cursor.at("..") else self._signed()
        cursor.expect("..", "between the bounds of a range")
        maximum = None if cursor.at(")") and minimum is not None else self._signed()
        return Range(prop, minimum, maximum)

    def _signed(self) -> int | float:
        cursor = self.cursor
        sign = -1 if cursor.take("-") else 1
        if cursor.at_kind(TokenKind.FLOAT):
            return sign * read_fraction(cursor)
        return sign * read_whole_number(cursor, "a number")

    # Annotations

    def _annotations(self) -> tuple[Annotation, ...]:
        found: list[Annotation] = []
        cursor = self.cursor
        while cursor.at_kind(TokenKind.META):
            if cursor.token.text in CONSTRAINTS and cursor.at("(", ahead=1):
                break
            found.append(self._annotation())
        return tuple(found)

    def _annotation(self) -> Annotation:
        cursor = self.cursor
        name = cursor.advance().text
        if not cursor.take("("):
            return Annotation(name=name)
        value = self._annotation_value(names=True)
        options: list[tuple[str, AnnotationValue]] = []
        while cursor.take(","):
            option = cursor.expect_kind(TokenKind.NAME, "the name of an option").text
            cursor.expect("=", "after the name of an option")
            options.append((option, self._annotation_value(names=False)))
        cursor.expect(")", f"after `@{name}(`")
        return Annotation(name=name, value=value, options=tuple(options))

    def _annotation_value(self, *, names: bool) -> AnnotationValue:
        cursor = self.cursor
        token = cursor.token
        if cursor.at_word("true", "false"):
            return cursor.advance().text == "true"
        if token.kind is TokenKind.STRING or (names and token.kind is TokenKind.NAME):
            return cursor.advance().text
        if token.kind is TokenKind.FLOAT:
            return read_fraction(cursor)
        if token.kind is TokenKind.INTEGER:
            return read_whole_number(cursor, "a number")
        cursor.fail(f"expected a value, not {token.shown}", 'a value is "text", a number, true or false')
