"""jq programs as tokens, split exactly where libjq's own scanner splits them.

`syntax` parses the tokens and `text` looks for forbidden names, so a difference from libjq here could hide a call from
them. Strings nest through interpolation, a comment continues after a backslash at the end of its line, and only what
libjq treats as white space is white space.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["KEYWORDS", "Token", "TokenKind", "tokenize"]


class TokenKind(StrEnum):
    """The kinds of tokens."""

    FIELD = "field"
    FORMAT = "format"
    IDENTIFIER = "identifier"
    INTERPOLATION_END = "interpolation end"
    INTERPOLATION_START = "interpolation start"
    INVALID = "invalid"
    KEYWORD = "keyword"
    NUMBER = "number"
    OPERATOR = "operator"
    STRING_END = "string end"
    STRING_START = "string start"
    STRING_TEXT = "string text"
    VARIABLE = "variable"


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a program; `text` is the name without `.`, `$` or `@`, `offset` counts characters from 0."""

    kind: TokenKind
    text: str
    offset: int


KEYWORDS = frozenset(
    {
        *("as", "import", "include", "module", "def", "if", "then", "else", "elif", "and", "or", "end"),
        *("reduce", "foreach", "try", "catch", "label", "break"),
    }
)
SPACE = re.compile(r"[ \r\n\t]+")
COMMENT = re.compile(r"#(?:\\(?:\\|\r?\n)|[^\n])*")
NAME = r"[a-zA-Z_][a-zA-Z_0-9]*"
PIECES = (
    (TokenKind.NUMBER, re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")),
    (TokenKind.FIELD, re.compile(rf"\.({NAME})")),
    (TokenKind.VARIABLE, re.compile(rf"\$((?:{NAME}::)*{NAME})")),
    (TokenKind.IDENTIFIER, re.compile(rf"((?:{NAME}::)*{NAME})")),
    (TokenKind.FORMAT, re.compile(r"@([a-zA-Z0-9_]+)")),
    (
        TokenKind.OPERATOR,
        re.compile(r"\?//|//=|!=|==|//|\|=|\+=|-=|\*=|/=|%=|<=|>=|\.\.|[.?=;,:|+\-*/%$<>\[\](){}]"),
    ),
)
STRING_PIECE = re.compile(r"(?:\\[^u(]|\\u[a-zA-Z0-9]{0,4}|[^\\\"])+", re.DOTALL)


def tokenize(program: str) -> tuple[Token, ...]:
    """Split a program into tokens; a character that libjq would not accept becomes an INVALID token."""
    scanner = _Scanner(program)
    while scanner.index < len(program):
        scanner.step()
    return tuple(scanner.tokens)


class _Scanner:
    def __init__(self, program: str) -> None:
        self.program = program
        self.index = 0
        self.tokens: list[Token] = []
        # The kind of each open bracket: its own character, or `"` for a string and `\` for an interpolation in one.
        self.open: list[str] = []

    def step(self) -> None:
        if self.open and self.open[-1] == '"':
            self._in_string()
            return
        skipped = SPACE.match(self.program, self.index) or COMMENT.match(self.program, self.index)
        if skipped is not None:
            self.index = skipped.end()
            return
        if self.program[self.index] == '"':
            self.open.append('"')
            self._emit(TokenKind.STRING_START, '"', 1)
            return
        for kind, pattern in PIECES:
            match = pattern.match(self.program, self.index)
            if match is not None:
                self._piece(kind, match)
                return
        self._emit(TokenKind.INVALID, self.program[self.index], 1)

    def _piece(self, kind: TokenKind, match: re.Match[str]) -> None:
        text = match[1] if match.re.groups else match[0]
        if kind is TokenKind.OPERATOR:
            kind = self._bracket(text)
        elif kind is TokenKind.IDENTIFIER and text in KEYWORDS:
            kind = TokenKind.KEYWORD
        self._emit(kind, text, len(match[0]))

    def _bracket(self, text: str) -> TokenKind:
        if text in "([{":
            self.open.append(text)
        elif text in ")]}":
            if not self.open:
                return TokenKind.INVALID
            opened = self.open[-1]
            if {"(": ")", "[": "]", "{": "}", "\\": ")"}[opened] != text:
                return TokenKind.INVALID
            self.open.pop()
            if opened == "\\":
                return TokenKind.INTERPOLATION_END
        return TokenKind.OPERATOR

    def _in_string(self) -> None:
        if self.program.startswith('"', self.index):
            self.open.pop()
            self._emit(TokenKind.STRING_END, '"', 1)
            return
        if self.program.startswith("\\(", self.index):
            self.open.append("\\")
            self._emit(TokenKind.INTERPOLATION_START, "\\(", 2)
            return
        match = STRING_PIECE.match(self.program, self.index)
        if match is None:
            self._emit(TokenKind.INVALID, self.program[self.index], 1)
        else:
            self._emit(TokenKind.STRING_TEXT, match[0], len(match[0]))

    def _emit(self, kind: TokenKind, text: str, length: int) -> None:
        self.tokens.append(Token(kind, text, self.index))
        self.index += length
