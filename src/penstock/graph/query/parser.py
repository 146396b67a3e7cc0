"""The parser of the query language: text to syntax trees, with all syntax errors of the text at once.

    file      = query*
    query     = "query" name "(" [parameter ("," parameter)*] ")" annotation* "{" (read | mutation+) "}"
    parameter = ["@description" "(" string ")"] "$"name ":" type
    read      = "match" "{" clause+ "}" "return" "{" (projection [","])+ "}"
                ["order" "{" ordering ("," ordering)* "}"] ["limit" int]
    mutation  = "insert" Type "{" (name ":" value [","])+ "}"
              | "update" Type "set" "{" (name ":" value [","])+ "}" "where" condition
              | "delete" Type "where" condition

Clauses are in `clauses`, conditions and expressions in `expressions`.

Above it: `read`. Below it: `clauses`, `tree`, `syntax`. It knows no schema.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.base import limits
from penstock.definitions.source.findings import Finding, Position
from penstock.graph.query.clauses import ClauseParser
from penstock.graph.query.tree import (
    Alias,
    Delete,
    Expression,
    Insert,
    Mutation,
    Ordering,
    Parameter,
    Projection,
    Query,
    Read,
    Update,
)
from penstock.graph.query.words import RESERVED, STATEMENTS, UNSUPPORTED
from penstock.graph.schema.model import Enum
from penstock.graph.schema.types import read_type, read_whole_number
from penstock.graph.syntax.cursor import Cursor, Stuck
from penstock.graph.syntax.tokens import TokenKind, tokenize

__all__ = ["ParsedQueries", "parse_queries"]

_ANNOTATIONS = ("description", "instruction", "mcp")


@dataclass(frozen=True, slots=True)
class ParsedQueries:
    """The queries that could be read, and what is wrong with the text."""

    queries: tuple[Query, ...]
    findings: tuple[Finding, ...]


def parse_queries(text: str) -> ParsedQueries:
    """Parse a file of queries. If there are findings, queries may be missing or incomplete."""
    parser = _Parser(Cursor(tokenize(text)))
    queries = parser.file()
    findings = sorted(parser.cursor.findings, key=lambda each: each.position or Position(1, 1))
    return ParsedQueries(queries, tuple(findings[: limits.GRAPH_FINDINGS_MAX]))


@dataclass(slots=True)
class _Texts:
    description: str | None = None
    instruction: str | None = None
    expose: bool | None = None
    tool_name: str | None = None


class _Parser:
    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.clauses = ClauseParser(cursor)

    def file(self) -> tuple[Query, ...]:
        found: list[Query] = []
        cursor = self.cursor
        while not cursor.at_end and len(cursor.findings) < limits.GRAPH_FINDINGS_MAX:
            start = cursor.mark
            try:
                cursor.count("queries in a file", limits.GRAPH_QUERIES_PER_FILE_MAX)
                found.append(self._query())
            except Stuck:
                if cursor.findings[-1].code == "TOO_MANY":
                    break
                cursor.skip_declaration(start, ("query", *UNSUPPORTED))
        return tuple(found)

    def _query(self) -> Query:
        cursor = self.cursor
        position = cursor.position
        if not cursor.take_word("query"):
            self._no_query()
        for what in ("clauses of a query", "parameters of a query", "columns", "statements of a mutation"):
            cursor.restart_count(what)
        name = cursor.expect_kind(TokenKind.NAME, "the name of the query", "it begins with a small letter").text
        if not cursor.at("("):
            cursor.fail(
                f"expected `(` after the name of the query, not {cursor.token.shown}", f"write `query {name}()`"
            )
        parameters = self._parameters()
        texts = self._annotations()
        cursor.expect("{", "at the beginning of the query")
        body = self._body()
        cursor.expect("}", "at the end of the query")
        return Query(
            name=name,
            parameters=parameters,
            description=texts.description,
            instruction=texts.instruction,
            expose=texts.expose,
            tool_name=texts.tool_name,
            body=body,
            position=position,
        )

    def _no_query(self) -> None:
        cursor = self.cursor
        token = cursor.advance()
        if token.kind is TokenKind.NAME and token.text in UNSUPPORTED:
            message = f"`{token.text}` statements are not supported"
            cursor.report(message, UNSUPPORTED[token.text], code="UNSUPPORTED_STATEMENT", at=token.position)
        else:
            guess = cursor.suggestions.nearest(token.text, ("query",)) if token.text else None
            hint = "did you mean `query`?" if guess else "a file has declarations `query name(…) { … }`"
            cursor.report(f"expected `query`, not {token.shown}", hint, at=token.position)
        raise Stuck

    # The head

    def _parameters(self) -> tuple[Parameter, ...]:
        cursor = self.cursor
        cursor.advance()
        found: list[Parameter] = []
        while not cursor.at(")"):
            cursor.count("parameters of a query", limits.GRAPH_PARAMETERS_MAX)
            found.append(self._parameter())
            if not cursor.take(","):
                break
        cursor.expect(")", "after the parameters")
        return tuple(found)

    def _parameter(self) -> Parameter:
        cursor = self.cursor
        description = None
        position = cursor.position
        if cursor.at_kind(TokenKind.META):
            if cursor.token.text != "description":
                cursor.unknown_word("a parameter", ("@description",))
            description = self._text_annotation()
        name = cursor.expect_kind(TokenKind.VARIABLE, "a parameter", "write `$name: Type`").text
        cursor.expect(":", "after the name of a parameter")
        type_position = cursor.position
        value_type, nullable = read_type(cursor)
        if isinstance(value_type, Enum):
            hint = "write String; the values are taken from the property that it is compared with"
            cursor.report("a parameter cannot be an enum", hint, at=type_position)
            raise Stuck
        return Parameter(name=name, type=value_type, nullable=nullable, description=description, position=position)

    def _text_annotation(self) -> str:
        cursor = self.cursor
        name = cursor.advance().text
        cursor.expect("(", f"after `@{name}`")
        text = cursor.expect_kind(TokenKind.STRING, "a text in quotes").text
        cursor.expect(")", f"after the text of `@{name}`")
        return text

    def _annotations(self) -> _Texts:
        cursor = self.cursor
        texts = _Texts()
        seen: set[str] = set()
        while cursor.at_kind(TokenKind.META):
            name = cursor.token.text
            if name not in _ANNOTATIONS:
                cursor.unknown_word("an annotation of a query", tuple(f"@{each}" for each in _ANNOTATIONS))
            if name in seen:
                cursor.report(f"`@{name}` is here twice", "remove one")
            seen.add(name)
            if name == "description":
                texts.description = self._text_annotation()
            elif name == "instruction":
                texts.instruction = self._text_annotation()
            else:
                self._tool_options(texts)
        return texts

    def _tool_options(self, texts: _Texts) -> None:
        cursor = self.cursor
        cursor.advance()
        cursor.expect("(", "after `@mcp`")
        while True:
            if cursor.at_word("expose"):
                cursor.advance()
                cursor.expect(":", "after `expose`")
                if not cursor.at_word("true", "false"):
                    cursor.fail(f"expected `true` or `false`, not {cursor.token.shown}")
                texts.expose = cursor.advance().text == "true"
            elif cursor.at_word("tool_name"):
                cursor.advance()
                cursor.expect(":", "after `tool_name`")
                texts.tool_name = cursor.expect_kind(TokenKind.STRING, "the name of the tool in quotes").text
            else:
                cursor.unknown_word("an option of `@mcp`", ("expose", "tool_name"))
            if not cursor.take(","):
                break
        cursor.expect(")", "after the options of `@mcp`")

    # The body

    def _body(self) -> Read | tuple[Mutation, ...]:
        cursor = self.cursor
        if cursor.at_word("match"):
            return self._read()
        if not cursor.at_word(*STATEMENTS):
            cursor.unknown_word("the body of a query", ("match", *STATEMENTS))
        found: list[Mutation] = []
        while cursor.at_word(*STATEMENTS):
            cursor.count("statements of a mutation", limits.GRAPH_STEPS_MAX)
            found.append(self._mutation())
        return tuple(found)

    def _read(self) -> Read:
        cursor = self.cursor
        cursor.advance()
        match = self.clauses.block("`match`")
        cursor.expect_word("return", "after `match { … }`")
        cursor.expect("{", "after `return`")
        position = cursor.position
        broken = len(cursor.findings)
        returns = cursor.block(self._projection, "`return`")
        if not returns and len(cursor.findings) == broken:
            cursor.report("`return` needs a column", "write `return { $x.name }`", at=position)
        order = self._order() if cursor.take_word("order") else ()
        limit = None
        if cursor.take_word("limit"):
            limit = self._limit()
        return Read(match=match, returns=returns, order=order, limit=limit)

    def _limit(self) -> int:
        cursor = self.cursor
        if not cursor.at_kind(TokenKind.INTEGER):
            cursor.fail(
                f"expected a whole number after `limit`, not {cursor.token.shown}", "a limit cannot be a parameter"
            )
        return read_whole_number(cursor, "the limit")

    def _projection(self) -> Projection:
        cursor = self.cursor
        cursor.count("columns", limits.GRAPH_PROJECTIONS_MAX)
        position = cursor.position
        expression = self.clauses.expressions.value("a column")
        if self.clauses.expressions.at_comparison():
            cursor.fail("a comparison cannot be a column", "compare in `match`, or return both values")
        alias = self._alias() if cursor.take_word("as") else None
        cursor.take(",")
        return Projection(expression, alias, position=position)

    def _alias(self) -> str:
        cursor = self.cursor
        if cursor.at_word(*RESERVED):
            cursor.fail(f"`{cursor.token.text}` is a reserved word", "choose another name for the column")
        return cursor.expect_kind(TokenKind.NAME, "the name of the column", "it begins with a small letter").text

    def _order(self) -> tuple[Ordering, ...]:
        cursor = self.cursor
        cursor.expect("{", "after `order`")
        found: list[Ordering] = []
        while True:
            position = cursor.position
            expression: Expression
            if cursor.at_kind(TokenKind.NAME) and not cursor.at("(", ahead=1):
                expression = Alias(self._alias(), position=position)
            else:
                expression = self.clauses.expressions.value("a key of the order")
            descending = cursor.at_word("desc")
            if cursor.at_word("asc", "desc"):
                cursor.advance()
            found.append(Ordering(expression, descending, position=position))
            if not cursor.take(","):
                break
        cursor.expect("}", "after the keys of the order")
        return tuple(found)

    # Mutations

    def _mutation(self) -> Mutation:
        cursor = self.cursor
        position = cursor.position
        word = cursor.advance().text
        hint = "names of types begin with a capital letter"
        type_name = cursor.expect_kind(TokenKind.TYPE, f"the type to {word}", hint).text
        if word == "insert":
            return Insert(type_name=type_name, values=self._values(), position=position)
        if word == "update":
            cursor.expect_word("set", "after the type to update")
            values = self._values()
            cursor.expect_word("where", "after the new values")
            where = self.clauses.expressions.target_condition()
            return Update(type_name=type_name, values=values, where=where, position=position)
        cursor.expect_word("where", "after the type to delete")
        return Delete(type_name=type_name, where=self.clauses.expressions.target_condition(), position=position)

    def _values(self) -> tuple[tuple[str, Expression], ...]:
        cursor = self.cursor
        cursor.expect("{", "before the values")
        if cursor.at("}"):
            cursor.fail("there has to be a value", "write `{ property: value }`")
        return cursor.block(self._value, "the values")

    def _value(self) -> tuple[str, Expression]:
        pair = self.clauses.assignment()
        self.cursor.take(",")
        return pair
