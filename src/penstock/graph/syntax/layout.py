"""Writing formatted text with the comments of the original.

A formatter writes lines in the order of the original, and says before each of them which place of the original comes
next. Comments from before that place come out first: one that stood alone on its line does so again, one that stood
behind something follows the last line. A comment of several lines always stands alone. One empty line between
comments is kept. So every comment is kept, and formatting what was formatted changes nothing.

Above it: the formatters of `schema` and `query`. Below it: `tokens`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.definitions.source.findings import Position
from penstock.graph.syntax.tokens import Comment, TokenKind, Tokens

__all__ = ["LINE_WIDTH", "Layout"]

LINE_WIDTH = 100
_INDENT = "  "
_END = Position(line=2**31, column=1)


class Layout:
    """Lines that have been written, and comments that are still to come."""

    def __init__(self, tokens: Tokens) -> None:
        self._lines: list[str] = []
        self._comments: list[Comment] = list(reversed(tokens.comments))
        self._depth = 0
        self._after_comment = True
        # The line of the original on which the last comment ended, if that was the last thing written.
        self._comment_end: int | None = None
        self._braces, self._closing = _braces(tokens)

    @property
    def indent(self) -> int:
        """The number of columns before the next line."""
        return self._depth * len(_INDENT)

    def line(self, text: str, *, at: Position | None = None) -> None:
        """Write a line; comments from before `at` come first."""
        if at is not None:
            self.before(at)
        self._write(text)
        self._after_comment = False
        self._comment_end = None

    def before(self, at: Position) -> None:
        """Write the comments before a place, and an empty line if there was one between them and the place."""
        self.comments_before(at)
        self._gap(at.line)

    def _gap(self, line: int) -> None:
        if self._comment_end is not None and line > self._comment_end + 1:
            self._lines.append("")
        self._comment_end = None

    def blank(self, *, at: Position | None = None) -> None:
        """Write an empty line, except at the beginning."""
        if at is not None:
            self._trailing_before(at)
        if self._lines:
            self._lines.append("")
            self._after_comment = True

    @contextmanager
    def block(self, opening: str, *, at: Position | None, closing: str = "}") -> Iterator[None]:
        """Write an opening line, what is inside, and a closing line; the first brace at `at` or behind opens it."""
        self.line(opening, at=at)
        with self.inside(at):
            yield
        self.line(closing)

    @contextmanager
    def inside(self, at: Position | None) -> Iterator[None]:
        """Indent what is inside a block, with the comments before its closing brace."""
        self._depth += 1
        yield
        end = self.end_of_block(at)
        if end is not None:
            self.comments_before(end)
        self._depth -= 1

    def end_of_block(self, at: Position | None) -> Position | None:
        """Return the place of the brace that closes the first one that is opened at `at` or behind."""
        if at is None:
            return None
        index = bisect_left(self._braces, at)
        return self._closing[index] if index < len(self._braces) else None

    def braces_at(self, at: Position) -> Position | None:
        """Return the place of the first opening brace at `at` or behind."""
        index = bisect_left(self._braces, at)
        return self._braces[index] if index < len(self._braces) else None

    def has_comments(self, at: Position | None) -> bool:
        """Whether there are comments before the end of the block that begins at `at` or behind."""
        end = self.end_of_block(at)
        return end is None or bool(self._comments and self._comments[-1].position < end)

    def comments_before(self, at: Position) -> None:
        """Write the comments that stand before a place."""
        while self._comments and self._comments[-1].position < at:
            self._comment(self._comments.pop())

    def _trailing_before(self, at: Position) -> None:
        """Write the comments before a place that belong to the last line."""
        while self._comments and self._comments[-1].position < at and self._trails(self._comments[-1]):
            self._comment(self._comments.pop())

    def _trails(self, comment: Comment) -> bool:
        return not (comment.stands_alone or self._after_comment or "\n" in comment.text)

    def _comment(self, comment: Comment) -> None:
        if self._trails(comment):
            self._comment_end = None
            self._lines[-1] += f"  {comment.text}"
            # A second one behind `// …` would become a part of it.
            self._after_comment = comment.text.startswith("//")
            return
        self._gap(comment.position.line)
        first, *rest = comment.text.split("\n")
        self._write(first)
        # The inside of a comment is its author's business.
        self._lines.extend(each.rstrip() for each in rest)
        self._after_comment = True
        self._comment_end = comment.position.line + len(rest)

    def _write(self, text: str) -> None:
        self._lines.append(_INDENT * self._depth + text)

    def text(self) -> str:
        """Return what was written, with all comments that are left."""
        self.comments_before(_END)
        return "\n".join(self._lines) + "\n" if self._lines else ""


def _braces(tokens: Tokens) -> tuple[list[Position], list[Position]]:
    """Return the places of opening braces, and of those that close them."""
    found: list[tuple[Position, Position]] = []
    opened: list[Position] = []
    for token in tokens.tokens:
        if token.kind is not TokenKind.SYMBOL:
            continue
        if token.text == "{":
            opened.append(token.position)
        elif token.text == "}" and opened:
            found.append((opened.pop(), token.position))
    found.sort()
    return [each for each, _ in found], [each for _, each in found]
