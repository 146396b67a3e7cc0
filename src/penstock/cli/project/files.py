"""The workflow files of a project, each loaded or quarantined with its findings: one bad file does not hide the others.

Above it: `penstock validate`, `serve`, `worker`, `run`, `doctor`. Below it: `context`, `findings`, `schema_files`. It
reads no workflow file: callers pass texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from penstock.app.settings.model import Settings
from penstock.base.json import JsonObject
from penstock.cli.project.context import ProjectContext, project_context
from penstock.cli.project.findings import PROJECT_CODES, project_findings
from penstock.cli.project.schema_files import schemas_beside
from penstock.definitions.agents.schemas import is_agent
from penstock.definitions.claims import ClaimedName, claimed_names
from penstock.definitions.model import Workflow
from penstock.definitions.outline.document import is_native
from penstock.definitions.source.document import SourceDocument, read_source
from penstock.definitions.source.findings import Finding, Severity
from penstock.definitions.validate import ExtraCheck, load_workflow

__all__ = ["PROJECT_CODES", "ProjectFile", "declared_names", "load_project", "project_check"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectFile:
    """A workflow file: the compiled workflow, or None if it cannot be served, and the findings."""

    file: str
    text: str
    workflow: Workflow | None
    findings: tuple[Finding, ...]

    @property
    def worst(self) -> Finding | None:
        """The first error, else the first warning."""
        return next(
            (item for item in self.findings if item.severity is Severity.ERROR), next(iter(self.findings), None)
        )


def load_project(
    texts: Iterable[tuple[str, str]], settings: Settings, *, steps: Iterable[Callable[..., Any]] | None = None
) -> tuple[list[ProjectFile], ProjectContext]:
    """Load files, given as names with texts, and look at each beside all others.

    A file is quarantined for its own mistakes: in its document, a schedule that cannot be kept, or the name of a
    tool, prompt, resource or webhook that a file before it has. A name that does not resolve is a warning, since
    another process may have what it names.
    """
    given = list(texts)
    owners: dict[ClaimedName, tuple[str, str]] = {}
    known = project_context(settings, workflows=declared_names(text for _, text in given), steps=steps)
    found = []
    for file, text in given:
        loaded = load_workflow(
            text,
            file=file,
            extra_check=lambda document: _all_findings(document, known, owners),
            find_schema=schemas_beside(file),
        )
        if loaded.workflow is not None:
            name = loaded.workflow.name
            owners.update((claim, (name, file)) for claim in claimed_names(name, loaded.workflow.document))
        found.append(ProjectFile(file=file, text=text, workflow=loaded.workflow, findings=loaded.findings))
    return found, known


def _all_findings(
    document: JsonObject, known: ProjectContext, owners: Mapping[ClaimedName, tuple[str, str]]
) -> Iterator[Finding]:
    name = _name(document) or ""
    for claim in claimed_names(name, document):
        owner, file = owners.get(claim, (name, ""))
        if owner != name:
            special = {"webhook": "/triggers", "handler": f"/expose/{claim.name}"}
            place = special.get(claim.kind, f"/expose/{claim.kind}")
            message = f"the {claim.kind} {claim.name} belongs to the workflow {owner} ({file})"
            yield Finding(
                code="NAME_TAKEN", path=place, message=message, hint="choose another name, or change that file"
            )
    for finding in project_findings(document, known):
        yield replace(finding, severity=Severity.WARNING) if finding.code in PROJECT_CODES else finding


def project_check(known: ProjectContext) -> ExtraCheck:
    """The check of a document against the project, as a function of the document."""
    return lambda document: project_findings(document, known)


def declared_names(texts: Iterable[str]) -> dict[str, bool]:
    """The names that workflow documents give themselves, as far as they can be read, and whether each is an agent."""
    found: dict[str, bool] = {}
    for text in texts:
        source = read_source(text)
        if isinstance(source, SourceDocument) and isinstance(source.value, dict):
            name = _name(source.value)
            if name is not None:
                found[name] = is_agent(source.value)
    return found


def _name(document: JsonObject) -> str | None:
    header = document if is_native(document) else document.get("document")
    name = header.get("name") if isinstance(header, dict) else None
    return name if isinstance(name, str) else None
