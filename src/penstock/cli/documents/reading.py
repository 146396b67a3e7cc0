"""One workflow document for a command: read and understood as far as possible, or refused.

Commands that only look at a document count its mistakes; commands that run it refuse it and show them. Without files,
a command reads those of the project.

Above it: `graph`, `diff`, `simulate`, `run.command`. Below it: `terminal.files` reads, `definitions` understands.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.app.settings.model import Settings
from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject
from penstock.base.text import clean
from penstock.cli.declaration import Exit
from penstock.cli.project.schema_files import schemas_beside
from penstock.cli.targets.settings import command_settings
from penstock.cli.terminal.console import console_for, count_words, print_problem
from penstock.cli.terminal.exits import report_problem
from penstock.cli.terminal.files import Unreadable, expand_paths, read_path
from penstock.cli.terminal.findings import print_findings
from penstock.cli.terminal.styled_text import Text
from penstock.cli.terminal.values import UsageError
from penstock.definitions.canonical import definition_hash
from penstock.definitions.model import Workflow
from penstock.definitions.outline.document import is_native
from penstock.definitions.source.findings import Finding, Severity
from penstock.definitions.validate import check_source, load_workflow

__all__ = [
    "ReadDocument",
    "choose_files",
    "exit_unless_readable",
    "load_runnable",
    "print_mistakes",
    "read_project_settings",
]

_UNREADABLE_EXIT = 2
# After these there is nothing to look at.
_FATAL_CODES = frozenset({"NOT_A_WORKFLOW", "DOCUMENT_TOO_DEEP"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadDocument:
    """A document and the number of its mistakes."""

    label: str
    document: JsonObject
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> int:
        """How many findings make the document unusable for runs."""
        return sum(finding.severity is Severity.ERROR for finding in self.findings)

    def about(self) -> JsonObject:
        """What identifies the document, for JSON output."""
        header = self.document if is_native(self.document) else self.document.get("document")
        fields = header if isinstance(header, dict) else {}
        return {
            "file": self.label,
            "name": fields.get("name"),
            "version": fields.get("version"),
            "hash": None if self.errors else definition_hash(self.document),
            "errors": self.errors,
            "warnings": len(self.findings) - self.errors,
        }

    def title(self) -> str:
        """The name and version, or the file where the document has none."""
        about = self.about()
        parts = [clean(part) for part in (about["name"], about["version"]) if isinstance(part, str)]
        return " ".join(parts) or self.label


def exit_unless_readable(path: str) -> ReadDocument:
    """Read a document; if that is impossible, say why on standard error and end the command with 2."""
    source = read_path(path)
    if isinstance(source, Unreadable):
        print_problem(f"{source.label}: {source.message}")
        raise Exit(_UNREADABLE_EXIT)
    checked = check_source(source.text, file=source.label, find_schema=schemas_beside(source.label))
    fatal = tuple(finding for finding in checked.findings if finding.code in _FATAL_CODES)
    if not isinstance(checked.document, dict) or fatal:
        findings = fatal or checked.findings
        print_findings(console_for(sys.stderr), findings, label=source.label, text=source.text)
        raise Exit(_UNREADABLE_EXIT)
    return ReadDocument(label=source.label, document=checked.document, findings=checked.findings)


def load_runnable(path: str) -> Workflow:
    """A workflow that can be run; mistakes are shown, and `UsageError` ends the command."""
    source = read_path(path)
    if isinstance(source, Unreadable):
        raise UsageError(f"{source.label}: {source.message}")
    loaded = load_workflow(source.text, file=source.label, find_schema=schemas_beside(source.label))
    if loaded.workflow is None:
        print_findings(console_for(sys.stderr), loaded.findings, label=source.label, text=source.text)
        raise UsageError(f"{source.label} has mistakes; correct them first")
    return loaded.workflow


def print_mistakes(read: ReadDocument, consequence: str) -> None:
    """Say on standard error that a document has mistakes and what follows; nothing when it has none."""
    if not read.errors:
        return
    console = console_for(sys.stderr)
    counted = count_words(read.errors, "error")
    console.print(Text.assemble(("warning", "bold yellow"), f": {read.label} has {counted}; {consequence}"))
    console.print(Text.assemble("  ", ("hint", "cyan"), f": run `penstock validate {read.label}` to see them"))


def read_project_settings(config: Path | None = None, *, as_json: bool = False) -> Settings | None:
    """The settings of the project; None outside a project. The command ends if they have mistakes."""
    try:
        loaded = command_settings(config, as_json=as_json)
    except (UsageError, PenstockError) as error:
        report_problem(error, as_json=as_json)
        raise Exit(_UNREADABLE_EXIT) from None
    return loaded.settings if loaded.file is not None else None


def choose_files(named: Sequence[str] | None, project: Settings | None, *, as_json: bool = False) -> list[str]:
    """The files that a command names, or else those of the project. Without any, the command ends."""
    if named:
        return list(named)
    try:
        if project is None:
            raise UsageError("no files given, and no penstock.yaml here: name the files")
        return expand_paths(project.workflows.paths)
    except (UsageError, PenstockError) as error:
        report_problem(error, as_json=as_json)
        raise Exit(_UNREADABLE_EXIT) from None
