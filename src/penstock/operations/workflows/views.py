"""The inputs and views of the operations on workflows.

Above it: `operations`, `tasks`. Below it: nothing but data and the stored rows they are made from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.source.findings import Finding
from penstock.operations.catalogue.fields import Cursor, IfMatch, Limit, WorkflowId, instant
from penstock.operations.gate.context import Services
from penstock.operations.runs.proposals import AuthorView, ProposalView, author_view
from penstock.runtime.ports.runs import DefinitionRow
from penstock.runtime.signatures import SignatureVerdict

__all__ = [
    "Bundle",
    "CreateWorkflow",
    "DeleteWorkflow",
    "DiffWorkflow",
    "Difference",
    "Document",
    "ExportWorkflows",
    "FindingView",
    "GetWorkflow",
    "ImportWorkflows",
    "Imported",
    "ListWorkflows",
    "Source",
    "UpdateWorkflow",
    "ValidateWorkflow",
    "Validation",
    "VersionHash",
    "WorkflowPage",
    "WorkflowSummary",
    "WorkflowVersions",
    "WorkflowView",
    "finding_view",
    "summary_of",
    "view_of",
]

Document = Annotated[dict[str, Any], Meta(description="The workflow document as an object.")]
Source = Annotated[
    str, Meta(description="The workflow document as text, YAML or JSON.", max_length=limits.DOCUMENT_BYTES_MAX)
]

VersionHash = Annotated[str, Meta(description="A version by its hash; the newest without.", max_length=80)]


class SignatureView(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a workflow is signed with a trusted key."""

    verified: bool
    key_id: str | None = None
    code: str | None = None
    message: str | None = None


class WorkflowView(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow as it is now."""

    id: str
    version: str
    hash: str
    title: str | None
    description: str | None
    created_at: str | None
    created_by: str | None
    document: dict[str, Any]
    input_schema: dict[str, Any] | None
    output_schema: dict[str, Any] | None
    author: AuthorView | None = None
    """Who wrote the version, and whether it takes effect."""
    signature: SignatureView | None = None
    """Whether it is signed with a trusted key; None where signatures are not looked at."""
    warnings: list[FindingView] | None = None
    """What could make a run fail, such as an unregistered model; only in the answer to a change."""


class WorkflowSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow in a list."""

    id: str
    version: str
    hash: str
    title: str | None
    description: str | None
    created_at: str | None
    author: AuthorView | None = None
    """Who wrote the version, and whether it takes effect."""


class WorkflowPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of workflows."""

    items: list[WorkflowSummary]
    next_cursor: str | None
    proposals: list[ProposalView] = []
    """Held calls that would store one; on the first page."""


class FindingView(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is wrong with a document, and where."""

    code: str
    severity: str
    message: str
    path: str
    hint: str | None = None
    line: int | None = None
    column: int | None = None


class Validation(msgspec.Struct, frozen=True, kw_only=True):
    """What a check of a document found."""

    valid: bool
    findings: list[FindingView]
    hash: str | None


class CreateWorkflow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A document, as an object or as text; or an id with tasks, from which a document is made."""

    document: Document | None = None
    source: Source | None = None
    id: Annotated[str, Meta(description="With `tasks`: the workflow's name.", max_length=64)] | None = None
    name: Annotated[str, Meta(description="With `tasks`: a title for people.", max_length=200)] | None = None
    tasks: Annotated[list[dict[str, Any]], Meta(description="The nodes, instead of a document.")] | None = None


class GetWorkflow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which workflow, and perhaps which version of it."""

    workflow_id: WorkflowId
    hash: VersionHash | None = None


class ListWorkflows(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which page."""

    prefix: Annotated[str, Meta(description="Only names with this prefix.", max_length=128)] | None = None
    limit: Limit = limits.PAGE_LIMIT_DEFAULT
    cursor: Cursor = None


class UpdateWorkflow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which workflow, and its new document."""

    workflow_id: WorkflowId
    document: Document | None = None
    source: Source | None = None
    name: Annotated[str, Meta(description="With `tasks`: a title for people.", max_length=200)] | None = None
    tasks: Annotated[list[dict[str, Any]], Meta(description="The nodes, instead of a document.")] | None = None
    if_match: IfMatch = None


class DeleteWorkflow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which workflow."""

    workflow_id: WorkflowId
    if_match: IfMatch = None


class ValidateWorkflow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The document to check."""

    document: Document | None = None
    source: Source | None = None


class WorkflowVersions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which workflow, and which page of its versions."""

    workflow_id: WorkflowId
    limit: Limit = limits.PAGE_LIMIT_DEFAULT
    cursor: Cursor = None


class DiffWorkflow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Two versions by hash; or a version and a document that is not stored yet."""

    workflow_id: WorkflowId
    before: Annotated[str, Meta(description="The older version's hash; the newest stored one without.")] | None = None
    after: Annotated[str, Meta(description="The newer version's hash; the newest stored one without.")] | None = None
    document: Document | None = None
    source: Source | None = None


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """What differs between two versions, whom it breaks, and whether runs in flight could be moved."""

    same: bool
    breaking_for_callers: bool
    safe_for_runs_in_flight: bool
    changes: list[dict[str, Any]]


class ExportWorkflows(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which workflows; all of them without a prefix."""

    prefix: Annotated[str, Meta(description="Only names with this prefix.", max_length=128)] | None = None


class Bundle(msgspec.Struct, frozen=True, kw_only=True):
    """Documents to be taken to another server."""

    workflows: list[dict[str, Any]]


class ImportWorkflows(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Documents from another server, and what to do about names that exist here."""

    workflows: Annotated[list[dict[str, Any]], Meta(description="The documents.", max_length=1_000)]
    overwrite: Annotated[bool, Meta(description="Replace workflows that exist and differ; else skip them.")] = False


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """What an import did, by name."""

    imported: list[str]
    overwritten: list[str]
    skipped: list[str]


def view_of(row: DefinitionRow, services: Services, warnings: Sequence[Finding] = ()) -> WorkflowView:
    """Return a stored definition as callers see it."""
    document, trust = row.document, services.signatures
    return WorkflowView(
        id=row.name,
        version=row.version,
        hash=row.hash,
        title=_text(document, "title"),
        description=_text(document, "description"),
        created_at=instant(row.created_at),
        created_by=row.created_by,
        document=document,
        input_schema=_schema(document, "input"),
        output_schema=_schema(document, "output"),
        author=author_view(services, row.author),
        signature=None if trust.mode == "off" else _signature(trust.verdict(document, row.hash)),
        warnings=[finding_view(item) for item in warnings] or None,
    )


def _signature(verdict: SignatureVerdict) -> SignatureView:
    return SignatureView(
        verified=verdict.is_good, key_id=verdict.key_id, code=verdict.code, message=verdict.message or None
    )


def _text(document: JsonObject, name: str) -> str | None:
    value = document.get(name)
    return value if isinstance(value, str) else None


def _schema(document: JsonObject, name: str) -> dict[str, Any] | None:
    value: JsonValue = document.get(name)
    return value if isinstance(value, dict) else None


def summary_of(row: DefinitionRow, services: Services) -> WorkflowSummary:
    """Return a stored definition as an item of a list."""
    return WorkflowSummary(
        id=row.name,
        version=row.version,
        hash=row.hash,
        title=_text(row.document, "title"),
        description=_text(row.document, "description"),
        created_at=instant(row.created_at),
        author=author_view(services, row.author),
    )


def finding_view(finding: Finding) -> FindingView:
    """Return a finding as callers see it."""
    position = finding.position
    return FindingView(
        code=finding.code,
        severity=str(finding.severity),
        message=finding.message,
        path=finding.path,
        hint=finding.hint,
        line=position.line if position else None,
        column=position.column if position else None,
    )
