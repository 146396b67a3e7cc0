"""A position in a list of tokens, with what hand-written parsers need: expecting, reporting, continuing after errors.

A parser calls `fail`, which reports a finding and raises `Stuck`. Code that reads a list catches it, skips to the next
item with `skip_item` or `skip_to`, and continues. So one text gives several findings. `Stuck` never leaves a parser.

Above it: the parsers of `schema` and `query`. Below it: `tokens`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import NoReturn, TypeVar

from penstock.base import limits
from penstock.definitions.source.findings import Finding, NameSuggestions, Position
from penstock.graph.syntax.tokens import Token, TokenKind, Tokens

__all__ = ["Cursor", "Stuck"]

_OPENING = {"{": "}", "(": ")", "[": "]"}
_CLOSING = frozenset(_OPENING.values())
_Item = TypeVar("_Item")


class Stuck(Exception):
    """The parser cannot continue here. The finding has been reported."""


class Cursor:
    """Reads tokens one after the other."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens.tokens
        self._index = 0
        self._depth = 0
        self._counts: dict[str, int] = {}
        self.findings: list[Finding] = list(tokens.findings)
        self.suggestions = NameSuggestions()

    # Looking

    @property
    def token(self) -> Token:
        """The next token."""
        return self._tokens[self._index]

    def ahead(self, count: int) -> Token:
        """The token that comes `count` after the next one."""
        return self._tokens[min(self._index + count, len(self._tokens) - 1)]

    @property
    def position(self) -> Position:
        """The place of the next token."""
        return self.token.position

    @property
    def at_end(self) -> bool:
        """Whether nothing is left."""
        return self.token.kind is TokenKind.END

    def at(self, symbol: str, *, ahead: int = 0) -> bool:
        """Whether a token is this symbol."""
        token = self.ahead(ahead)
        return token.kind is TokenKind.SYMBOL and token.text == symbol

    def at_word(self, *words: str, ahead: int = 0) -> bool:
        """Whether a token is one of these words."""
        token = self.ahead(ahead)
        return token.kind is TokenKind.NAME and token.text in words

    def at_kind(self, *kinds: TokenKind, ahead: int = 0) -> bool:
        """Whether a token is of one of these kinds."""
        return self.ahead(ahead).kind in kinds

    # Reading

    def advance(self) -> Token:
        """Take the next token."""
        token = self.token
        if not self.at_end:
            self._index += 1
        return token

    def take(self, symbol: str) -> bool:
        """Take the symbol if it is next."""
        found = self.at(symbol)
        if found:
            self.advance()
        return found

    def take_word(self, word: str) -> bool:
        """Take the word if it is next."""
        found = self.at_word(word)
        if found:
            self.advance()
        return found

    def expect(self, symbol: str, place: str) -> Token:
        """Take a symbol that has to be here."""
        if not self.at(symbol):
            self.fail(f"expected `{symbol}` {place}, not {self.token.shown}")
        return self.advance()

    def expect_word(self, word: str, place: str) -> Token:
        """Take a word that has to be here."""
        if not self.at_word(word):
            guess = self.token.kind is TokenKind.NAME and self.suggestions.nearest(self.token.text, (word,))
            self.fail(
                f"expected `{word}` {place}, not {self.token.shown}", f"did you mean `{word}`?" if guess else None
            )
        return self.advance()

    def expect_kind(self, kind: TokenKind, what: str, hint: str | None = None) -> Token:
        """Take a token of a kind that has to be here."""
        if self.token.kind is not kind:
            self.fail(f"expected {what}, not {self.token.shown}", hint)
        return self.advance()

    # Reporting

    def report(
        self, message: str, hint: str | None = None, *, code: str = "SYNTAX", at: Position | None = None
    ) -> None:
        """Report a finding and continue."""
        self.findings.append(Finding(code=code, message=message, hint=hint, position=at or self.position))

    def fail(self, message: str, hint: str | None = None, *, code: str = "SYNTAX") -> NoReturn:
        """Report a finding and abandon the current item."""
        self.report(message, hint, code=code)
        raise Stuck

    def unknown_word(self, what: str, known: Collection[str]) -> NoReturn:
        """Report that the next token begins nothing that may stand here."""
        word = self.token.shown.strip("`")
        hint = self.suggestions.hint(word, known, otherwise="expected")
        self.fail(f"{what} cannot begin with {self.token.shown}", hint)

    def count(self, what: str, maximum: int) -> None:
        """Count a thing of the text, and give up if there are too many."""
        self._counts[what] = self._counts.get(what, 0) + 1
        if self._counts[what] > maximum:
            self.fail(f"there are more than {maximum} {what}", code="TOO_MANY")

    def restart_count(self, what: str) -> None:
        """Count these from zero again."""
        self._counts[what] = 0

    @contextmanager
    def nested(self) -> Iterator[None]:
        """Go one level deeper, and give up if that is too deep."""
        if self._depth >= limits.GRAPH_BLOCK_DEPTH_MAX:
            self.fail(f"blocks and parentheses are nested deeper than {limits.GRAPH_BLOCK_DEPTH_MAX}", code="TOO_DEEP")
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    # Going on after an error

    @property
    def mark(self) -> int:
        """This place, to come back to."""
        return self._index

    def _skip_item(self, start: int) -> None:
        """Skip a broken thing that began at `start`: to the next line at its depth, or to the end of the block."""
        failed, self._index = self._index, start
        depth = 0
        while not self.at_end:
            token = self.token
            beyond = self._index >= failed and self._index > start
            if depth <= 0 and ((beyond and token.starts_line) or self._closes(token)):
                return
            depth = self._deeper(depth)

    def skip_declaration(self, start: int, words: Collection[str]) -> None:
        """Skip a broken declaration that began at `start`: to the end of its braces, or to one of these words.

        A word counts only at the beginning of a line: unindented it always does, as braces may be missing.
        """
        failed, self._index = self._index, start
        depth = 0
        while not self.at_end:
            token = self.token
            beyond = self._index >= failed and self._index > start
            begins = token.kind is TokenKind.NAME and token.text in words and token.starts_line
            if beyond and begins and (token.position.column == 1 or depth <= 0):
                return
            depth = self._deeper(depth)
            ended = depth <= 0 and token.kind is TokenKind.SYMBOL and token.text in ("}", ";")
            if ended and self._index > failed:
                return

    def _deeper(self, depth: int) -> int:
        token = self.advance()
        if token.kind is TokenKind.SYMBOL and token.text in _OPENING:
            return depth + 1
        return depth - 1 if self._closes(token) else depth

    @staticmethod
    def _closes(token: Token) -> bool:
        return token.kind is TokenKind.SYMBOL and token.text in _CLOSING

    def block(self, item: Callable[[], _Item], place: str) -> tuple[_Item, ...]:
        """Read things up to a closing brace, which is taken; broken ones are reported and skipped."""
        items: list[_Item] = []
        while not self.at("}"):
            if self.at_end:
                self.fail(f"expected `}}` at the end of {place}")
            start = self._index
            try:
                items.append(item())
            except Stuck:
                fatal = self.findings[-1].code in ("TOO_MANY", "TOO_DEEP")
                if fatal or len(self.findings) >= limits.GRAPH_FINDINGS_MAX or self.at_end:
                    raise
                self._skip_item(start)
                if self._closes(self.token) and not self.at("}"):
                    raise
        self.advance()
        return tuple(items)
