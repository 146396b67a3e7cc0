"""The few forms of Markdown that generated pages need."""

from collections.abc import Iterable, Sequence

__all__ = ["anchor", "code", "link", "page", "prose", "table"]


def page(title: str, source: str, parts: Iterable[str]) -> str:
    """A whole page, with a note that says where its content comes from."""
    note = f"<!-- Made by `scripts/docs` from {source}. Change that, and run `scripts/docs`. -->"
    return "\n\n".join([f"# {title}", note, *(part.strip("\n") for part in parts)]) + "\n"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; `|` in cells is escaped."""
    lines = [_row(headings), _row(["---"] * len(headings))]
    return "\n".join([*lines, *(_row(row) for row in rows)])


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def code(text: object) -> str:
    """Text as inline code."""
    return f"`{text}`"


def anchor(heading: str) -> str:
    """The anchor that a heading gets on common Git hosts."""
    kept = (character for character in heading.lower() if character.isalnum() or character in " -_")
    return "".join(kept).replace(" ", "-")


def prose(text: str) -> str:
    """A sentence from the source, with markup outside of inline code escaped."""
    parts = text.split("`")
    parts[::2] = [part.replace("<", "&lt;").replace("__", "\\_\\_") for part in parts[::2]]
    return "`".join(parts)


def link(text: str, target: str) -> str:
    """A link."""
    return f"[{text}]({target})"
