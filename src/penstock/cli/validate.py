"""`penstock validate`: every mistake of workflow files at once, for people or as JSON.

Exit codes: 0 when all files are fine, 1 when there are findings that matter, 2 when a file could not be read.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from penstock.base.json import JsonObject, JsonValue
from penstock.cli.files import SourceText, Unreadable, read_sources
from penstock.cli.report import console_for, count_words, print_findings, print_problem
from penstock.definitions.canonical import definition_hash
from penstock.definitions.findings import Finding, Severity
from penstock.definitions.outline import is_native
from penstock.definitions.validate import check_source

__all__ = ["validate_command"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verdict:
    source: SourceText | Unreadable
    document: JsonObject
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> int:
        return sum(finding.severity is Severity.ERROR for finding in self.findings)

    @property
    def warnings(self) -> int:
        return len(self.findings) - self.errors

    def is_ok(self, *, strict: bool) -> bool:
        return not self.errors and not (strict and self.warnings)


def validate_command(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE",
            help="Workflow files (YAML or JSON), directories to search for them, or - for standard input.",
        ),
    ],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Treat warnings as failures.")] = False,
) -> None:
    """Find every mistake in workflow files, each with its place and a hint.

    Exits with 0 when all is well, 1 when there are errors (or warnings with --strict), 2 when a file cannot be read.
    """
    verdicts = [_verdict(source) for source in read_sources(files)]
    if as_json:
        report = {
            "ok": all(verdict.is_ok(strict=strict) for verdict in verdicts),
            "files": [_as_json(verdict, strict=strict) for verdict in verdicts],
        }
        typer.echo(json.dumps(report, indent=2, ensure_ascii=False))
    else:
        _print(verdicts)
    if any(isinstance(verdict.source, Unreadable) for verdict in verdicts):
        raise typer.Exit(2)
    if not all(verdict.is_ok(strict=strict) for verdict in verdicts):
        raise typer.Exit(1)


def _verdict(source: SourceText | Unreadable) -> _Verdict:
    if isinstance(source, Unreadable):
        finding = Finding(code=source.code, message=source.message, file=source.label)
        return _Verdict(source=source, document={}, findings=(finding,))
    checked = check_source(source.text, file=source.label)
    document = checked.document if isinstance(checked.document, dict) else {}
    return _Verdict(source=source, document=document, findings=checked.findings)


def _about(document: JsonObject) -> tuple[str | None, str | None]:
    header: JsonValue = document if is_native(document) else document.get("document")
    if not isinstance(header, dict):
        return None, None
    name, version = header.get("name"), header.get("version", "0.0.0" if is_native(document) else None)
    return (name if isinstance(name, str) else None), (version if isinstance(version, str) else None)


def _as_json(verdict: _Verdict, *, strict: bool) -> JsonObject:
    name, version = _about(verdict.document)
    return {
        "file": verdict.source.label,
        "ok": verdict.is_ok(strict=strict),
        "name": name,
        "version": version,
        "hash": definition_hash(verdict.document) if verdict.document and not verdict.errors else None,
        "findings": [finding.to_json() for finding in verdict.findings],
    }


def _print(verdicts: list[_Verdict]) -> None:
    console = console_for(sys.stdout)
    for verdict in verdicts:
        if isinstance(verdict.source, Unreadable):
            print_problem(f"{verdict.source.label}: {verdict.source.message}")
            continue
        print_findings(console, verdict.findings, label=verdict.source.label, text=verdict.source.text)
        if not verdict.errors:
            _print_accepted(console, verdict)
    _print_summary(console, verdicts)


def _print_accepted(console: Console, verdict: _Verdict) -> None:
    name, version = _about(verdict.document)
    about = " ".join(part for part in (name, version) if part)
    console.print(Text.assemble((f"{verdict.source.label}: ", "bold"), ("ok", "green"), f" {about}".rstrip()))


def _print_summary(console: Console, verdicts: list[_Verdict]) -> None:
    checked = [verdict for verdict in verdicts if isinstance(verdict.source, SourceText)]
    errors, warnings = sum(verdict.errors for verdict in checked), sum(verdict.warnings for verdict in checked)
    counts = ", ".join([count_words(errors, "error")] + ([count_words(warnings, "warning")] if warnings else []))
    console.print(f"{count_words(len(checked), 'file')} checked: {counts}")
