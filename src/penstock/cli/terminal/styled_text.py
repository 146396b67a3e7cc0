"""A text whose parts have styles: colors, bold, dim. It can be measured, cut and wrapped.

A style is a few words: `bold red`. Above it: everything that prints for people. Below it: `cells`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from penstock.cli.terminal.cells import ELLIPSIS, cell_count, split_clusters

__all__ = ["COLORS", "STYLES", "Part", "Text"]

COLORS: Final = {
    name: 30 + number
    for number, name in enumerate(("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"))
}
"""The words for colors, and what a terminal calls them."""
STYLES: Final = {"bold": 1, "dim": 2, "italic": 3, "underline": 4, "blink": 5, "reverse": 7}
"""The other words of a style."""

_Cluster: TypeAlias = tuple[str, int, str]


class Text:
    """A text with styles. The style of the whole comes first; a part can add to it."""

    __slots__ = ("_parts", "_style")

    def __init__(self, text: str = "", style: str = "") -> None:
        self._style = _check_style(style)
        self._parts: list[tuple[str, str]] = []
        self.append(text)

    @classmethod
    def assemble(cls, *parts: Part) -> Text:
        """Return a text of several parts: each a text, with its style, or a styled text."""
        whole = cls()
        for part in parts:
            if isinstance(part, tuple):
                whole.append(*part)
            else:
                whole.append(part)
        return whole

    def append(self, text: str | Text, style: str = "") -> Text:
        """Add to the end; return the text itself."""
        if isinstance(text, Text):
            self._parts += [(piece, f"{style} {own}".strip()) for piece, own in text.parts()]
        elif text:
            self._parts.append((text, _check_style(style)))
        return self

    def parts(self) -> Iterator[tuple[str, str]]:
        """Return the pieces, each with its whole style."""
        for piece, style in self._parts:
            yield piece, f"{self._style} {style}".strip()

    @property
    def plain(self) -> str:
        """The text without styles."""
        return "".join(piece for piece, _ in self._parts)

    @property
    def cells(self) -> int:
        """The cells that the text takes, if it is one line."""
        return cell_count(self.plain)

    def rstrip(self) -> Text:
        """Remove spaces at the end, in place; return the text itself."""
        while self._parts:
            piece, style = self._parts.pop()
            if kept := piece.rstrip():
                self._parts.append((kept, style))
                break
        return self

    def cut(self, cells: int) -> Text:
        """Return one line of at most so many cells; what is cut off ends in an ellipsis."""
        if self.cells <= cells:
            return self
        kept: list[_Cluster] = []
        room = cells - 1
        for cluster in self._clusters():
            room -= cluster[1]
            if room < 0:
                break
            kept.append(cluster)
        return _join_clusters([*kept, (ELLIPSIS, 1, kept[-1][2] if kept else self._style)]) if cells > 0 else Text()

    def pad(self, cells: int) -> Text:
        """Return one line of exactly so many cells, cut or padded."""
        shown = self.cut(cells)
        return Text.assemble(shown, (" " * (cells - shown.cells), self._style))

    def wrap(self, cells: int, *, indent: int = 0) -> list[Text]:
        """Return lines of at most so many cells, broken at spaces; those after a break are indented.

        A word that is longer than a line is broken anywhere.
        """
        plain = self.plain
        if "\n" not in plain and cell_count(plain) <= cells:
            return [Text.assemble(self).rstrip()]
        indent = min(indent, max(cells - 1, 0) // 2)
        return [line for paragraph in self._split_lines() for line in _wrap_line(paragraph, max(cells, 1), indent)]

    def _clusters(self) -> Iterator[_Cluster]:
        for piece, style in self.parts():
            for cluster, cells in split_clusters(piece):
                yield cluster, cells, style

    def _split_lines(self) -> list[list[_Cluster]]:
        lines: list[list[_Cluster]] = [[]]
        for piece, style in self.parts():
            for number, line in enumerate(piece.split("\n")):
                if number:
                    lines.append([])
                lines[-1] += [(cluster, cells, style) for cluster, cells in split_clusters(line)]
        return lines


Part: TypeAlias = str | tuple[str, str] | Text


def _wrap_line(clusters: list[_Cluster], cells: int, indent: int) -> list[Text]:
    lines: list[Text] = []
    line: list[_Cluster] = []
    margin = [(" ", 1, "")] * indent
    for spaces, whole in _split_words(clusters):
        word = whole
        if not lines and not line:
            # A paragraph keeps its own indent, as far as its first word leaves room.
            room = cells - _count_cells(word)
            line = spaces[: room if room >= 0 else cells // 2]
        elif line != margin:
            if _count_cells(line) + len(spaces) + _count_cells(word) > cells:
                lines.append(_join_clusters(line).rstrip())
                line = [*margin]
            else:
                line += spaces
        while word and _count_cells(line) + _count_cells(word) > cells:
            count = _count_fitting(word, cells - _count_cells(line))
            if not count and line:
                # Not even one character fits behind the indent.
                line.pop()
                continue
            count = max(count, 1)
            lines.append(_join_clusters([*line, *word[:count]]))
            line, word = [*margin], word[count:]
        line += word
    return [*lines, _join_clusters(line).rstrip()] if line != margin or not lines else lines


def _split_words(clusters: list[_Cluster]) -> Iterator[tuple[list[_Cluster], list[_Cluster]]]:
    """Return words, each with the spaces before it."""
    spaces: list[_Cluster] = []
    word: list[_Cluster] = []
    for cluster in clusters:
        if cluster[0] != " ":
            word.append(cluster)
            continue
        if word:
            yield spaces, word
            spaces, word = [], []
        spaces.append(cluster)
    yield spaces, word


def _count_cells(clusters: list[_Cluster]) -> int:
    return sum(cells for _, cells, _ in clusters)


def _count_fitting(clusters: list[_Cluster], cells: int) -> int:
    """Count the clusters that fit into so many cells."""
    for count, (_, own, _) in enumerate(clusters):
        cells -= own
        if cells < 0:
            return count
    return len(clusters)


def _join_clusters(clusters: list[_Cluster]) -> Text:
    whole = Text()
    run, run_style = "", ""
    for cluster, _, style in clusters:
        if style != run_style:
            whole.append(run, run_style)
            run, run_style = "", style
        run += cluster
    return whole.append(run, run_style)


def _check_style(style: str) -> str:
    for word in style.split():
        if word not in COLORS and word not in STYLES:
            raise ValueError(f"{word!r} is not a word of a style")
    return style
