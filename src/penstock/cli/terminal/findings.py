"""Findings for people: each with the line that it is about, a mark under it, and a hint.

Above it: the commands that read documents. Below it: `console`.
"""

from __future__ import annotations

from penstock.cli.terminal.console import Console
from penstock.cli.terminal.styled_text import Text
from penstock.definitions.source.findings import Finding, Severity

__all__ = ["print_findings"]

_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow"}
# Longer lines are cut around the mark, so that it stays visible.
_LINE_CHARACTERS_MAX = 160


def print_findings(console: Console, findings: tuple[Finding, ...], *, label: str, text: str) -> None:
    """Print every finding with the source line it is about."""
    lines = text.splitlines()
    for finding in findings:
        _print_finding(console, finding, label, lines)


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
