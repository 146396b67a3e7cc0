"""Printing for people: consoles, and findings with the line that they are about, a mark under it, and a hint.

Above it: all commands. Colour appears on a terminal only.
"""

from __future__ import annotations

import sys
from typing import TextIO

from rich.console import Console
from rich.text import Text

from penstock.definitions.source.findings import Finding, Severity

__all__ = ["console_for", "count_words", "print_findings", "print_problem"]

_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow"}
# Longer lines are cut around the mark, so that it stays visible.
_LINE_CHARACTERS_MAX = 160


def console_for(stream: TextIO) -> Console:
    """A console that neither wraps nor colours its output unless it is a terminal."""
    return Console(file=stream, highlight=False, soft_wrap=True, emoji=False, markup=False)


def print_findings(console: Console, findings: tuple[Finding, ...], *, label: str, text: str) -> None:
    """Print every finding with the source line it is about."""
    lines = text.splitlines()
    for finding in findings:
        _print_finding(console, finding, label, lines)


def print_problem(message: str) -> None:
    """Say on standard error why a command could not do its work."""
    console_for(sys.stderr).print(Text.assemble(("error", "bold red"), f": {message}"))


def count_words(count: int, noun: str) -> str:
    """A number with its noun: `1 error`, `2 errors`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _print_finding(console: Console, finding: Finding, label: str, lines: list[str]) -> None:
    style = _STYLES[finding.severity]
    position = finding.position
    place = f"{label}:{position.line}:{position.column}" if position is not None else label
    code = Text(str(finding.severity), style=style).append(f" {finding.code}")
    heading = Text.assemble((place, "bold"), ": ", code, f" {finding.message}")
    if position is None and finding.path:
        heading.append(f" (at {finding.path})", style="dim")
    console.print(heading)
    if position is not None and 1 <= position.line <= len(lines):
        _print_line(console, lines[position.line - 1], position.line, position.column, style)
    if finding.hint:
        console.print(Text.assemble("  ", ("hint", "cyan"), f": {finding.hint}"))


def _print_line(console: Console, line: str, number: int, column: int, style: str) -> None:
    start = max(0, column - _LINE_CHARACTERS_MAX // 2) if len(line) > _LINE_CHARACTERS_MAX else 0
    shown = line[start : start + _LINE_CHARACTERS_MAX].replace("\t", " ")
    gutter = f"  {number} | "
    console.print(Text.assemble((gutter, "dim"), shown))
    blank = " " * (len(gutter) - 2) + "| "
    console.print(Text.assemble((blank, "dim"), " " * (column - 1 - start), ("^", style)))
