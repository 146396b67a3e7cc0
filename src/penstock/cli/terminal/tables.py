"""Columns that are aligned, and fit into a width.

If there is not enough room, the widest columns become narrower first; none becomes narrower than its least width.
Above it: lists of runs and answers, `penstock runs top`, help. Below it: `styled_text`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from penstock.cli.terminal.styled_text import Text

__all__ = ["GAP_CELLS", "Column", "table_lines"]

GAP_CELLS: Final = 2


class Column(NamedTuple):
    """One column. `least` is how narrow it may become; `grows` says that it takes room that is left."""

    heading: str = ""
    least: int = 1
    grows: bool = False


def table_lines(
    columns: Sequence[Column], rows: Sequence[Sequence[Text]], width: int, *, heading_style: str | None = "bold"
) -> list[Text]:
    """Return the lines of a table, all of the same width; without a style for headings, it has no headings."""
    headings = [Text(column.heading) for column in columns]
    lines = [*([headings] if heading_style is not None else []), *rows]
    widths = _fit_widths(columns, [[line[number].cells for line in lines] for number in range(len(columns))], width)
    drawn = [_draw_line(line, widths) for line in lines]
    if heading_style is not None:
        drawn[0] = Text(style=heading_style).append(drawn[0])
    return drawn


def _draw_line(cells: Sequence[Text], widths: Sequence[int]) -> Text:
    line = Text()
    for number, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        line.append(" " * GAP_CELLS if number else "").append(cell.pad(width))
    return line


def _fit_widths(columns: Sequence[Column], cells: Sequence[Sequence[int]], width: int) -> list[int]:
    widths = [max(own, default=0) for own in cells]
    spare = width - sum(widths) - GAP_CELLS * max(len(columns) - 1, 0)
    growing = [number for number, column in enumerate(columns) if column.grows]
    if spare > 0 and growing:
        for position, number in enumerate(growing):
            share = spare // (len(growing) - position)
            widths[number] += share
            spare -= share
    while spare < 0:
        shrinking = [number for number, column in enumerate(columns) if widths[number] > max(column.least, 1)]
        if not shrinking:
            break
        widths[max(shrinking, key=lambda number: widths[number])] -= 1
        spare += 1
    return widths
