"""`penstock validate`: every mistake of workflow files at once, for people or as JSON.

Exit codes: 0 when all files are fine, 1 when there are findings that matter, 2 when a file could not be read.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Annotated

from penstock.app.settings.model import Settings
from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject, JsonValue
from penstock.cli.declaration import Argument, Exit, Option, echo
from penstock.cli.documents.reading import choose_files, read_project_settings
from penstock.cli.project.context import project_context
from penstock.cli.project.files import declared_names, project_check
from penstock.cli.project.schema_files import schemas_beside
from penstock.cli.targets.settings import ConfigOption
from penstock.cli.terminal.console import Console, console_for, count_words, print_problem
from penstock.cli.terminal.exits import report_problem
from penstock.cli.terminal.files import SourceText, Unreadable, expand_paths, read_sources
from penstock.cli.terminal.findings import print_findings
from penstock.cli.terminal.styled_text import Text
from penstock.definitions.canonical import definition_hash
from penstock.definitions.outline.document import is_native
from penstock.definitions.source.findings import Finding, Severity
from penstock.definitions.validate import ExtraCheck, check_source

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
        list[str] | None,
        Argument(
            metavar="FILE",
            help="Workflow files (YAML or JSON), directories to search for them, or - for standard input. Without any, "
            "those of the project (workflows.paths).",
        ),
    ] = None,
    *,
    config: ConfigOption = None,
    alone: Annotated[
        bool, Option("--alone", help="Look at each document by itself, and load nothing of the project.")
    ] = False,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object instead of text.")] = False,
    strict: Annotated[bool, Option("--strict", help="Treat warnings as failures.")] = False,
) -> None:
    """Find every mistake in workflow files, each with a hint.

    In a project (a folder with penstock.yaml, or --config) documents are checked against it: schedules, step functions
    and their arguments, other workflows, models, MCP servers, agents and secrets. Its step modules are imported.

    Exits with 0 when all is well, 1 when there are errors (or warnings with --strict), 2 when a file cannot be read.
    """
    settings = None if alone else read_project_settings(config, as_json=as_json)
    sources = list(read_sources(choose_files(files, settings, as_json=as_json)))
    extra_check, problem = (None, None) if settings is None else _extra_check(settings, sources)
    if problem is not None and not as_json:
        report_problem(problem, as_json=False)
    verdicts = [_verdict(source, extra_check) for source in sources]
    if as_json:
        report: JsonObject = {
            "ok": problem is None and all(verdict.is_ok(strict=strict) for verdict in verdicts),
            "files": [_as_json(verdict, strict=strict) for verdict in verdicts],
        }
        if problem is not None:
            report["problem"] = {"code": problem.code, "message": problem.message, "hint": problem.hint}
        echo(json.dumps(report, indent=2, ensure_ascii=False))
    else:
        _print(verdicts)
    if any(isinstance(verdict.source, Unreadable) for verdict in verdicts):
        raise Exit(2)
    if problem is not None or not all(verdict.is_ok(strict=strict) for verdict in verdicts):
        raise Exit(1)


def _extra_check(settings: Settings, sources: list[SourceText | Unreadable]) -> tuple[ExtraCheck, PenstockError | None]:
    """The check of a document against the project, and what is wrong with the project's own steps."""
    try:
        others = list(read_sources(expand_paths(settings.workflows.paths)))
    except PenstockError:
        others = []  # a pattern matches nothing; the files named on the command line still count
    texts = [source.text for source in (*sources, *others) if isinstance(source, SourceText)]
    known = project_context(settings, workflows=declared_names(texts))
    return project_check(known), known.problem


def _verdict(source: SourceText | Unreadable, extra_check: ExtraCheck | None) -> _Verdict:
    if isinstance(source, Unreadable):
        finding = Finding(code=source.code, message=source.message, file=source.label)
        return _Verdict(source=source, document={}, findings=(finding,))
    found = schemas_beside(source.label)
    checked = check_source(source.text, file=source.label, extra_check=extra_check, find_schema=found)
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
