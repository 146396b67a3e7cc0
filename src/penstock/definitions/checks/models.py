"""Checks for models that nodes name and that do not exist.

Above it: the project check of the command line, the operations that store documents. Below it: the outline of
documents.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from penstock.base.json import JsonObject
from penstock.definitions.node_parts.kind import Resource
from penstock.definitions.outline.document import nodes_of_kinds, references_of
from penstock.definitions.source.findings import Finding, suggestion

__all__ = ["unknown_models"]


def unknown_models(
    document: JsonObject, names: Collection[str], providers: Collection[str], *, todo: str
) -> Iterator[Finding]:
    """Yield a finding for each model that is neither among the names nor addressed to a known provider (`p:model`).

    `todo` says what to do if no name is close to the one that is written.
    """
    for node in nodes_of_kinds(document, lambda kind: kind.references is not None):
        for reference in references_of(node):
            wanted = reference.name
            if reference.resource is not Resource.MODEL or not isinstance(wanted, str) or wanted in names:
                continue
            if wanted.partition(":")[0] in providers and ":" in wanted:
                continue
            listed = f"; there is {', '.join(sorted(names))}" if names else ""
            yield Finding(
                code="UNKNOWN_MODEL",
                message=f"there is no model `{wanted}`",
                path=node.field_path(reference.field),
                hint=suggestion(wanted, names) or f"{todo}{listed}",
            )
