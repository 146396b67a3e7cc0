"""Which workflow `penstock run` means: a file, or one of the project by its name, with the others that it may start.

Above it: `command`. Below it: `project.files`, `documents.reading`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from penstock.app.settings.model import Settings
from penstock.base.errors import PenstockError
from penstock.cli.documents.reading import load_runnable
from penstock.cli.project.files import PROJECT_CODES, declared_names, load_project
from penstock.cli.terminal.console import console_for
from penstock.cli.terminal.files import SourceText, Unreadable, expand_paths, read_path, read_sources
from penstock.cli.terminal.findings import print_findings
from penstock.cli.terminal.values import UsageError
from penstock.definitions.model import Workflow
from penstock.definitions.source.findings import suggestion

__all__ = ["runnable_in_project"]


def runnable_in_project(
    named: str, others: Sequence[str], settings: Settings, *, performs: bool
) -> tuple[Workflow, list[Workflow]]:
    """The workflow to run, and those beside it; mistakes are shown, and `UsageError` ends the command.

    `performs`: this process does the work, so names that it cannot resolve are reported before the run begins.
    """
    texts = _project_texts(settings)
    target = _target(named, texts)
    given = {**texts, target.label: target.text}
    loaded, _ = load_project(given.items(), settings, steps=None if performs else ())
    (found,) = (item for item in loaded if item.file == target.label)
    warnings = tuple(item for item in found.findings if item.code in PROJECT_CODES and performs)
    shown = found.findings if found.workflow is None else warnings
    print_findings(console_for(sys.stderr), shown, label=found.file, text=found.text)
    if found.workflow is None:
        raise UsageError(f"{found.file} has mistakes; correct them first")
    chosen = [load_runnable(path) for path in others]
    taken = {found.workflow.name, *(other.name for other in chosen)}
    beside = (item.workflow for item in loaded if item.workflow is not None)
    return found.workflow, [*chosen, *(other for other in beside if other.name not in taken)]


def _project_texts(settings: Settings) -> dict[str, str]:
    """The workflow files that the settings name, as far as they can be read."""
    try:
        sources = list(read_sources(expand_paths(settings.workflows.paths)))
    except PenstockError:
        return {}
    return {source.label: source.text for source in sources if isinstance(source, SourceText)}


def _target(named: str, texts: Mapping[str, str]) -> SourceText:
    """The file that a name or a path means."""
    if not Path(named).is_file():
        for label, text in texts.items():
            if named in declared_names([text]):
                return SourceText(label, text)
    source = read_path(named)
    if isinstance(source, Unreadable):
        names = declared_names(texts.values())
        known = f"this project has {', '.join(sorted(names))}" if names else None
        more = suggestion(named, names) or known
        raise UsageError(f"{source.label}: {source.message}" + (f"; {more}" if more else ""))
    return source
