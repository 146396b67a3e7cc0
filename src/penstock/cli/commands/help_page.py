"""Pages of help: how a command is called, what it does, and lists of its arguments, options or commands.

Texts are written as in Markdown: paragraphs and lists are wrapped; what is indented by four spaces stays as it is.

Above it: `command`, `group`, and the help of the whole command line, which is printed without Click. Below it:
`terminal.styled_text`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from penstock.cli.references import CommandRow
from penstock.cli.terminal.console import Console
from penstock.cli.terminal.styled_text import Text

__all__ = ["HelpPage", "Row", "Section", "command_sections", "help_lines", "print_page"]

# Longer lines are hard to read.
_WIDTH_MAX: Final = 100
_LABEL_CELLS_MAX: Final = 30
_INDENT: Final = 2
_GAP: Final = 2
# Beside labels, a text needs this much room; otherwise it stands below.
_TEXT_CELLS_MIN: Final = 24
_CODE_INDENT: Final = "    "


class Row(NamedTuple):
    """One entry of a list: what is typed, what stands for its value, what it does, and what else there is to know."""

    label: str
    text: str
    value: str = ""
    note: str = ""


class Section(NamedTuple):
    """A list with a heading."""

    heading: str
    rows: Sequence[Row]


class HelpPage(NamedTuple):
    """Everything that help says about one command."""

    usage: str
    text: str
    sections: Sequence[Section]
    example: str = ""
    footer: str = ""


def print_page(page: HelpPage, console: Console) -> None:
    """Print a page as wide as the terminal, up to a width that is easy to read."""
    for line in help_lines(page, console.width):
        console.print(line)


def help_lines(page: HelpPage, columns: int) -> Iterator[Text]:
    """Return the lines of a page."""
    width = max(min(columns, _WIDTH_MAX), 1)
    yield from Text.assemble(("Usage:", "bold"), f" {page.usage}").wrap(width, indent=7)
    if page.text:
        yield Text()
        yield from _markdown_lines(page.text, width)
    labels = [_label_of(row).cells for section in page.sections for row in section.rows]
    label_cells = max((cells for cells in labels if cells <= _LABEL_CELLS_MAX), default=_LABEL_CELLS_MAX)
    for section in page.sections:
        if section.rows:
            yield Text()
            yield Text(f"{section.heading}:", style="bold")
            for row in section.rows:
                yield from _row_lines(row, label_cells, width)
    if page.example:
        yield Text()
        yield Text("Example:", style="bold")
        # Whole, so that it can be copied: the terminal wraps it.
        yield Text(" " * _INDENT + page.example)
    if page.footer:
        yield Text()
        yield from _markdown_lines(page.footer, width)


def command_sections(rows: Mapping[str, CommandRow]) -> list[Section]:
    """Return the commands of a table that help shows, under their headings."""
    headings: dict[str, list[Row]] = {}
    for name, row in rows.items():
        if not row.hidden:
            headings.setdefault(row.panel or "Commands", []).append(Row(name, row.help))
    return [Section(heading, rows) for heading, rows in headings.items()]


def _label_of(row: Row) -> Text:
    label = Text(row.label, style="bold cyan")
    return Text.assemble(label, f" {row.value}") if row.value else label


def _row_lines(row: Row, label_cells: int, width: int) -> Iterator[Text]:
    label = _label_of(row)
    text = Text(row.text)
    if row.note:
        text.append(f"{' ' if row.text else ''}[{row.note}]", "dim")
    at = _INDENT + label_cells + _GAP
    if width - at < _TEXT_CELLS_MIN:
        at = 2 * _INDENT + _GAP
    lines = text.wrap(max(width - at, 1))
    if label.cells <= at - _INDENT - _GAP and lines:
        first, *lines = lines
        yield Text.assemble(" " * _INDENT, label, " " * (at - _INDENT - label.cells), first).rstrip()
    else:
        yield from (_with_indent(line, _INDENT) for line in label.wrap(max(width - _INDENT, 1)))
    yield from (_with_indent(line, at) for line in lines if line.plain)


def _markdown_lines(text: str, width: int) -> Iterator[Text]:
    for number, lines in enumerate(_split_blocks(text)):
        if number:
            yield Text()
        if all(line.startswith(_CODE_INDENT) for line in lines):
            yield from map(Text, lines)
            continue
        for paragraph in _split_paragraphs(lines):
            yield from Text(paragraph).wrap(width, indent=_mark_cells(paragraph))


def _split_blocks(text: str) -> Iterator[list[str]]:
    """Return the lines between empty lines."""
    block: list[str] = []
    for line in text.splitlines():
        if line.strip():
            block.append(line)
        elif block:
            yield block
            block = []
    if block:
        yield block


def _mark_cells(line: str) -> int:
    """Count the cells of the mark that an item of a list begins with: `- `, `* ` or `1. `; 0 without a mark."""
    mark, space, _ = line.partition(" ")
    is_item = mark in ("-", "*") or (mark.endswith(".") and mark[:-1].isdecimal())
    return len(mark) + 1 if space and is_item else 0


def _split_paragraphs(lines: Sequence[str]) -> Iterator[str]:
    """Return what is wrapped together: a paragraph, or one item of a list."""
    paragraph: list[str] = []
    for line in lines:
        if paragraph and _mark_cells(line.strip()):
            yield " ".join(paragraph)
            paragraph = []
        paragraph.append(line.strip())
    yield " ".join(paragraph)


def _with_indent(line: Text, cells: int) -> Text:
    return Text.assemble(" " * cells, line)
