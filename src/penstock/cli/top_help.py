"""`penstock --help` and `--version` from the table of commands, without Typer.

Importing Typer and Rich takes ten times as long as starting Python. The text is the one that Typer prints for the same
table: `tests/unit/cli/test_top_help.py` compares them.

Above it: `main`. Below it: `references`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from penstock.cli.references import LazyCommand

__all__ = ["print_top_help", "top_help"]

Paint: TypeAlias = Callable[[str, str], str]

_COLUMNS_DEFAULT = 80
# In a narrower window Typer shrinks the column of names, too.
_COLUMNS_MIN = 60
# Typer reads these itself. The last one asks for completions in a shell.
_FOR_TYPER = ("TERMINAL_WIDTH", "FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS", "_PENSTOCK_COMPLETE")
_OPTIONS = {
    "--version": "Print the version and exit.",
    # The next two are Typer's, in its words.
    "--install-completion": "Install completion for the current shell.",
    "--show-completion": "Show completion for the current shell, to copy it or customize the installation.",
    "--help": "Show this message and exit.",
}
_FLAG = "<bool>"
_BOLD, _CYAN, _YELLOW, _DIM = "1", "1;36", "33", "2"


def print_top_help(arguments: list[str], commands: Mapping[str, LazyCommand], summary: str, version: str) -> bool:
    """Print the help or the version, if that is all that is asked for; return whether it was."""
    if arguments == ["--version"]:
        print(f"penstock {version}")
        return True
    columns = _terminal_columns()
    if arguments != ["--help"] or columns < _COLUMNS_MIN or any(map(os.environ.get, _FOR_TYPER)):
        return False
    if "utf" not in (sys.stdout.encoding or "").lower():
        return False  # Typer knows how to draw frames with other characters
    is_colored = sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") not in ("dumb", None)
    print(top_help(commands, summary, columns, is_colored=is_colored))
    return True


def top_help(commands: Mapping[str, LazyCommand], summary: str, columns: int, *, is_colored: bool = False) -> str:
    """The help text, with the commands in their panels."""
    panels: dict[str, dict[str, str]] = {}
    for name, reference in commands.items():
        if not reference.hidden and not reference.alias:
            panels.setdefault(reference.panel or "Commands", {})[name] = reference.help
    paint = _paint if is_colored else _leave_plain
    names_width = max(len(name) for rows in panels.values() for name in rows)
    usage = f" {paint('Usage:', _YELLOW)} {paint('penstock', _BOLD)} [OPTIONS] COMMAND [ARGS]..."
    lines = ["", usage, "", f" {summary}", "", *_panel_lines("Options", _option_rows(paint), columns, paint)]
    for title, rows in panels.items():
        named = ((paint(name.ljust(names_width), _CYAN) + "  ", names_width + 2, text) for name, text in rows.items())
        lines += _panel_lines(title, named, columns, paint)
    return "\n".join([*(line if "\x1b" in line else line.ljust(columns) for line in lines[:5]), *lines[5:], ""])


def _option_rows(paint: Paint) -> Iterator[tuple[str, int, str]]:
    width = max(map(len, _OPTIONS)) + 8
    for name, text in _OPTIONS.items():
        yield f"{paint(name.ljust(width), _CYAN)}{paint(_FLAG, _YELLOW)}  ", width + len(_FLAG) + 2, text


def _panel_lines(title: str, rows: Iterator[tuple[str, int, str]], columns: int, paint: Paint) -> Iterator[str]:
    """A framed list: each row has a label, how wide it is, and a text that is wrapped beside it."""
    edge = paint("│", _DIM)
    yield paint(f"╭─ {title} {'─' * (columns - len(title) - 5)}╮", _DIM)
    for label, width, text in rows:
        room = columns - width - 4
        for number, line in enumerate(_wrap_words(text, room)):
            yield f"{edge} {' ' * width if number else label}{line.ljust(room)} {edge}"
    yield paint(f"╰{'─' * (columns - 2)}╯", _DIM)


def _wrap_words(text: str, width: int) -> Iterator[str]:
    line = ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > width:
            yield line
            line = word
        else:
            line = f"{line} {word}" if line else word
    yield line


def _terminal_columns() -> int:
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or _COLUMNS_DEFAULT
    except (OSError, ValueError):
        return _COLUMNS_DEFAULT


def _paint(text: str, style: str) -> str:
    return f"\x1b[{style}m{text}\x1b[0m"


def _leave_plain(text: str, style: str) -> str:
    return text
