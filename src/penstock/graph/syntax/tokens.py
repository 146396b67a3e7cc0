"""Texts of both graph languages as tokens and comments, with their positions.

Strings are decoded here. Anything that is not a token becomes a finding and is skipped, so that reading continues
behind it.

Above it: `cursor`, `layout`. Below it: nothing. It knows no keywords.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from penstock.base import limits
from penstock.definitions.source.findings import Finding, Position

__all__ = ["Comment", "Token", "TokenKind", "Tokens", "quoted", "tokenize"]


class TokenKind(StrEnum):
    """The kinds of tokens."""

    NAME = "name"
    """Begins with a small letter or `_`: keywords, properties, edges in queries."""
    TYPE = "type name"
    """Begins with a capital letter."""
    VARIABLE = "variable"
    META = "annotation"
    STRING = "string"
    INTEGER = "integer"
    FLOAT = "number"
    SYMBOL = "symbol"
    END = "end of the text"


class Token(NamedTuple):
    """A piece of a text. `text` is decoded for strings, and without `$` or `@` for variables and annotations."""

    kind: TokenKind
    text: str
    line: int
    column: int
    start: int
    end: int
    starts_line: bool = False

    @property
    def position(self) -> Position:
        """The place of its first character."""
        return Position(self.line, self.column)

    @property
    def shown(self) -> str:
        """The token as people see it in a message."""
        match self.kind:
            case TokenKind.VARIABLE:
                return f"`${self.text}`"
            case TokenKind.META:
                return f"`@{self.text}`"
            case TokenKind.STRING:
                return "a string"
            case TokenKind.END:
                return "the end of the text"
            case _:
                return f"`{self.text[: limits.GUESS_CHARACTERS_MAX]}`"


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment as it is written. It stands alone if nothing is before it on its line."""

    text: str
    position: Position
    stands_alone: bool


@dataclass(frozen=True, slots=True)
class Tokens:
    """A text in pieces; `tokens` ends with one of kind `END`."""

    tokens: tuple[Token, ...]
    comments: tuple[Comment, ...]
    findings: tuple[Finding, ...]


_PIECE = re.compile(
    r"""(?P<space>[ \t\r\n\ufeff]+)
    |(?P<comment>//[^\n]*|/\*.*?\*/)
    |(?P<string>"(?:[^"\\]|\\.)*")
    |(?P<variable>\$[a-z_][A-Za-z0-9_]*)
    |(?P<meta>@[a-z_][A-Za-z0-9_]*)
    |(?P<float>[0-9]+\.[0-9]+)
    |(?P<integer>[0-9]+)
    |(?P<type>[A-Z][A-Za-z0-9_]*)
    |(?P<name>[a-z_][A-Za-z0-9_]*)
    |(?P<symbol>->|\.\.|>=|<=|!=|[{}()\[\]:,?<>=*|.;\-])
    """,
    re.VERBOSE | re.DOTALL,
)
_KINDS = {
    "string": TokenKind.STRING,
    "variable": TokenKind.VARIABLE,
    "meta": TokenKind.META,
    "float": TokenKind.FLOAT,
    "integer": TokenKind.INTEGER,
    "type": TokenKind.TYPE,
    "name": TokenKind.NAME,
    "symbol": TokenKind.SYMBOL,
}
_MULTILINE = frozenset({"space", "comment", "string"})
_MARKED = frozenset({"variable", "meta"})
_NAMED = frozenset({"name", "type", "variable", "meta"})
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_WRITTEN = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_HALF_PAIR = re.compile("[\ud800-\udfff]")
_PRINTABLE_MIN = 0x20


def quoted(text: str) -> str:
    """Write a text as a string literal."""
    return '"' + "".join(_WRITTEN.get(each) or _written(each) for each in text) + '"'


def _written(character: str) -> str:
    return f"\\u{ord(character):04x}" if ord(character) < _PRINTABLE_MIN else character


def _decoded(literal: str) -> tuple[str, str | None]:
    """Decode the inside of a string literal; the second part says what is wrong with it."""
    if "\\" not in literal:
        return literal, None
    problem: list[str] = []

    def replaced(found: re.Match[str]) -> str:
        escape = found[1]
        if escape[0] == "u" and len(escape) > 1:
            return chr(int(escape[1:], 16))
        if escape not in _ESCAPES:
            problem.append(escape)
            return escape
        return _ESCAPES[escape]

    text = _ESCAPE.sub(replaced, literal)
    if problem:
        return text, f"`\\{problem[0]}` is not an escape"
    if _HALF_PAIR.search(text):
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if "\N{REPLACEMENT CHARACTER}" in text:
            return text, "a `\\u` escape is half of a pair"
    return text, None


class _Tokenizer:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[Token] = []
        self.comments: list[Comment] = []
        self.findings: list[Finding] = []
        self._line = 1
        self._line_start = 0
        self._token_line = 0

    def run(self) -> Tokens:
        offset, size, match = 0, len(self.text), _PIECE.match
        while offset < size and len(self.findings) < limits.GRAPH_FINDINGS_MAX:
            found = match(self.text, offset)
            if found is None:
                following = self._unknown(offset)
                if following is None:
                    break
                offset = following
                continue
            group = found.lastgroup
            if group == "comment":
                self._comment(found[0], offset)
            elif group is not None and group != "space":
                self._token(group, found[0], offset)
            if group in _MULTILINE:
                self._count_lines(offset, found.end())
                if group == "string":
                    self._token_line = self._line
            offset = found.end()
        self._count_lines(offset, size)
        end = Token(TokenKind.END, "", self._line, size - self._line_start + 1, size, size, True)
        return Tokens((*self.tokens, end), tuple(self.comments), tuple(self.findings))

    def _count_lines(self, start: int, end: int) -> None:
        lines = self.text.count("\n", start, end)
        if lines:
            self._line += lines
            self._line_start = self.text.rindex("\n", start, end) + 1

    def _position(self, offset: int) -> Position:
        return Position(self._line, offset - self._line_start + 1)

    def _comment(self, text: str, offset: int) -> None:
        alone = self._line != self._token_line
        self.comments.append(Comment(text.rstrip(), self._position(offset), alone))

    def _token(self, group: str, text: str, offset: int) -> None:
        end = offset + len(text)
        if group == "string":
            text, problem = _decoded(text[1:-1])
            if problem is not None:
                self.report(self._position(offset), problem, 'escapes are \\" \\\\ \\/ \\n \\t \\r \\b \\f and \\uXXXX')
        elif group in _MARKED:
            text = text[1:]
        if len(text) > limits.GRAPH_NAME_CHARACTERS_MAX and group in _NAMED:
            message = f"a name has at most {limits.GRAPH_NAME_CHARACTERS_MAX} characters"
            self.report(self._position(offset), message, None)
            text = text[: limits.GRAPH_NAME_CHARACTERS_MAX]
        line, column = self._line, offset - self._line_start + 1
        self.tokens.append(Token(_KINDS[group], text, line, column, offset, end, line != self._token_line))
        self._token_line = line

    def _unknown(self, offset: int) -> int | None:
        """Report something that is not a token, and return where to continue; None if nothing behind it can be read."""
        position = self._position(offset)
        character = self.text[offset]
        if character == '"':
            self.report(position, "the string has no end", 'close it with `"`')
            return None
        if self.text.startswith("/*", offset):
            self.report(position, "the comment has no end", "close it with `*/`")
            return None
        hints = {
            "'": 'strings have double quotes: "text"',
            "#": "comments begin with `//`",
            "$": "a variable is `$` and a name that begins with a small letter",
            "@": "an annotation is `@` and a name that begins with a small letter",
            "!": "`!=` is the opposite of `=`; `not` negates a condition",
            "&": "write `and`",
            "+": "there is no arithmetic; compute the value before the call",
            "/": "comments begin with `//` or `/*`; there is no arithmetic",
        }
        self.report(position, f"unexpected character {character!a}", hints.get(character))
        return offset + 1

    def report(self, position: Position, message: str, hint: str | None) -> None:
        self.findings.append(Finding(code="SYNTAX", message=message, hint=hint, position=position))


def tokenize(text: str) -> Tokens:
    """Split a text; one that is too long is not read at all."""
    if len(text) > limits.GRAPH_TEXT_CHARACTERS_MAX:
        message = f"the text has {len(text)} characters; {limits.GRAPH_TEXT_CHARACTERS_MAX} are allowed"
        finding = Finding(
            code="TEXT_TOO_LARGE", message=message, hint="split it into several files", position=Position(1, 1)
        )
        return Tokens((Token(TokenKind.END, "", 1, 1, 0, 0, True),), (), (finding,))
    half = _HALF_PAIR.search(text)
    tokenizer = _Tokenizer(_HALF_PAIR.sub("\N{REPLACEMENT CHARACTER}", text))
    if half is not None:
        line = text.count("\n", 0, half.start()) + 1
        column = half.start() - text.rfind("\n", 0, half.start())
        tokenizer.report(Position(line, column), "the text has half of a surrogate pair", None)
    return tokenizer.run()
