"""The formatter of the query language.

One query after the other with an empty line between them, one clause and one column on a line, two spaces of
indentation. Parameters stand on lines of their own if they do not fit on one. Comments are kept. Formatting what was
formatted changes nothing, and never changes the meaning.

Above it: the command line, editors. Below it: `parser`, `written`, `syntax.layout`.
"""

from __future__ import annotations

from bisect import bisect_right

from penstock.definitions.source.findings import Finding, Position
from penstock.graph.query.parser import parse_queries
from penstock.graph.query.tree import (
    Clause,
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
from penstock.graph.query.written import Written, written_clause, written_expression
from penstock.graph.schema.types import written_type
from penstock.graph.syntax.layout import LINE_WIDTH, Layout
from penstock.graph.syntax.tokens import TokenKind, Tokens, quoted, tokenize

__all__ = ["format_queries"]

_SECTIONS = frozenset({"match", "return", "order", "limit"})


def format_queries(text: str) -> str | tuple[Finding, ...]:
    """Format a file of queries, or say why it cannot be read."""
    parsed = parse_queries(text)
    if parsed.findings:
        return parsed.findings
    tokens = tokenize(text)
    writer = _Writer(Layout(tokens), tokens)
    for query in parsed.queries:
        writer.query(query)
    return writer.layout.text()


class _Writer:
    def __init__(self, layout: Layout, tokens: Tokens) -> None:
        self.layout = layout
        self._words: dict[str, list[Position]] = {}
        for each in tokens.tokens:
            if each.kind is TokenKind.NAME and each.text in _SECTIONS:
                self._words.setdefault(each.text, []).append(each.position)

    def _word(self, word: str, after: Position | None) -> Position | None:
        """Find the first of these words behind a place; nothing stands between a section and the next."""
        places = self._words.get(word, [])
        index = bisect_right(places, after or Position(1, 1))
        return places[index] if index < len(places) else None

    # The head

    def query(self, query: Query) -> None:
        """Write a query."""
        self.layout.blank(at=query.position)
        parameters = [_parameter(each) for each in query.parameters]
        head = f"query {query.name}({', '.join(parameters)})"
        texts = _annotations(query)
        fits = len(head) + 2 <= LINE_WIDTH
        body = self._body_position(query)
        if fits:
            self.layout.line(head if texts else f"{head} {{", at=query.position)
        else:
            self._long_head(query, parameters, last=not texts)
        for text in texts:
            self.layout.line(f"  {text}")
        if texts:
            self.layout.line("{", at=body)
        self._body(query, body)

    def _long_head(self, query: Query, parameters: list[str], *, last: bool) -> None:
        self.layout.line(f"query {query.name}(", at=query.position)
        for declared, text in zip(query.parameters, parameters, strict=True):
            self.layout.line(f"  {text},", at=declared.position)
        self.layout.line(") {" if last else ")")

    def _body_position(self, query: Query) -> Position | None:
        return None if query.position is None else self.layout.braces_at(query.position)

    def _body(self, query: Query, start: Position | None) -> None:
        layout = self.layout
        with layout.inside(start):
            if isinstance(query.body, Read):
                self._read(query.body, start)
            else:
                for statement in query.body:
                    self._mutation(statement)
        layout.line("}")

    # Reads

    def _read(self, read: Read, start: Position | None) -> None:
        layout = self.layout
        match_at = self._word("match", start)
        with layout.block("match {", at=match_at):
            self._clauses(read.match)
        return_at = self._word("return", layout.end_of_block(match_at))
        with layout.block("return {", at=return_at):
            for each in read.returns:
                layout.line(_projection(each), at=each.position)
        end = layout.end_of_block(return_at)
        if read.order:
            keys = ", ".join(map(_ordering, read.order))
            order_at = self._word("order", end)
            layout.line(f"order {{ {keys} }}", at=order_at)
            end = layout.end_of_block(order_at)
        if read.limit is not None:
            layout.line(f"limit {read.limit}", at=self._word("limit", end))

    def _clauses(self, clauses: tuple[Clause, ...]) -> None:
        for clause in clauses:
            if clause.position is not None:
                self.layout.before(clause.position)
            written = written_clause(clause)
            line = self._one_line(written)
            if line is None:
                self._pieces(written)
            else:
                self.layout.line(line)

    def _one_line(self, written: Written) -> str | None:
        """Write a clause on one line, if its blocks have one plain clause each and no comments."""
        text = ""
        for piece in written:
            if isinstance(piece, str):
                text += piece
                continue
            inner = written_clause(piece.clauses[0])
            if len(piece.clauses) > 1 or len(inner) > 1 or self.layout.has_comments(piece.position):
                return None
            text += f"{{ {inner[0]} }}"
        return text if len(text) + self.layout.indent <= LINE_WIDTH or len(written) == 1 else None

    def _pieces(self, written: Written) -> None:
        """Write a clause with its blocks on lines of their own."""
        text = ""
        for piece in written:
            if isinstance(piece, str):
                text += piece
                continue
            self.layout.line(f"{text}{{")
            with self.layout.inside(piece.position):
                self._clauses(piece.clauses)
            text = "}"
        self.layout.line(text)

    # Mutations

    def _mutation(self, statement: Mutation) -> None:
        layout = self.layout
        match statement:
            case Insert():
                self._values(f"insert {statement.type_name} {{", statement.values, "}", statement.position)
            case Update():
                written = written_clause(statement.where)
                condition = "".join(each for each in written if isinstance(each, str))
                head = f"update {statement.type_name} set {{"
                self._values(head, statement.values, f"}} where {condition}", statement.position)
            case Delete():
                written = written_clause(statement.where)
                condition = "".join(each for each in written if isinstance(each, str))
                layout.line(f"delete {statement.type_name} where {condition}", at=statement.position)

    def _values(self, head: str, values: tuple[tuple[str, Expression], ...], closing: str, at: Position | None) -> None:
        pairs = [f"{name}: {written_expression(value)}" for name, value in values]
        single = f"{head} {', '.join(pairs)} {closing}"
        if len(single) + self.layout.indent <= LINE_WIDTH:
            self.layout.line(single, at=at)
            return
        with self.layout.block(head, at=at, closing=closing):
            for (_, value), pair in zip(values, pairs, strict=True):
                self.layout.line(f"{pair},", at=value.position)


def _parameter(parameter: Parameter) -> str:
    text = f"@description({quoted(parameter.description)}) " if parameter.description is not None else ""
    return f"{text}${parameter.name}: {written_type(parameter.type, nullable=parameter.nullable)}"


def _annotations(query: Query) -> list[str]:
    found: list[str] = []
    if query.description is not None:
        found.append(f"@description({quoted(query.description)})")
    if query.instruction is not None:
        found.append(f"@instruction({quoted(query.instruction)})")
    options: list[str] = []
    if query.expose is not None:
        options.append(f"expose: {'true' if query.expose else 'false'}")
    if query.tool_name is not None:
        options.append(f"tool_name: {quoted(query.tool_name)}")
    return [*found, f"@mcp({', '.join(options)})"] if options else found


def _projection(projection: Projection) -> str:
    text = written_expression(projection.expression)
    return text if projection.alias is None else f"{text} as {projection.alias}"


def _ordering(ordering: Ordering) -> str:
    return written_expression(ordering.expression) + (" desc" if ordering.descending else "")
