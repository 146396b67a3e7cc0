"""Documents whose schemas refer to schemas by name (`$ref: "schema:order@1"`): what they need, and with it filled in.

Above it: `validate`, the operations that store documents. Below it: the places of schemas in a document,
`schemas.references`. It looks nothing up: callers pass what they found.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from penstock.base.json import JsonObject, JsonValue, exceeds_depth
from penstock.base.limits import DOCUMENT_DEPTH_MAX
from penstock.definitions.canonical import signature_of
from penstock.definitions.checks.shape.document import schema_places
from penstock.definitions.schemas.references import (
    NamedSchema,
    SchemaReference,
    embed,
    parse_reference,
    references_in,
    why_not_embedded,
)
from penstock.definitions.secret_answers import with_values
from penstock.definitions.source.findings import Finding, suggestion

__all__ = ["named_schemas_of", "reference_findings", "with_named_schemas"]


def named_schemas_of(document: JsonValue) -> tuple[SchemaReference, ...]:
    """Return the references to named schemas in the schemas of a document; most have none."""
    if not isinstance(document, dict) or exceeds_depth(document, DOCUMENT_DEPTH_MAX) or not _mentions_any(document):
        return ()
    return tuple(found for path, schema in schema_places(document) for found in references_in(schema, path))


def reference_findings(
    document: JsonObject,
    references: Collection[SchemaReference],
    found: Mapping[str, NamedSchema],
    known: Collection[str] = (),
    *,
    todo: str,
) -> tuple[Finding, ...]:
    """Return why references cannot be filled in; nothing if all can.

    `known` are the names of schemas, for hints, and `todo` says how a schema gets there.
    """
    problems = [
        Finding(code=code, message=f"`{reference.text}` {message}", path=reference.path, hint=hint)
        for reference in references
        for code, message, hint in [_problem(reference, found.get(reference.text), known, todo)]
        if code
    ]
    if not problems and references and signature_of(document) is not None:
        message = (
            "the document is signed and refers to schemas of a registry; inlining them would invalidate the signature"
        )
        hint = "store it unsigned, download it with its schemas inlined, and sign that version"
        problems.append(
            Finding(code="SCHEMA_NOT_RESOLVED", message=message, path=next(iter(references)).path, hint=hint)
        )
    return tuple(problems)


def with_named_schemas(document: JsonObject, found: Mapping[str, NamedSchema]) -> JsonObject:
    """Return a document with its references filled in."""
    filled: dict[str, JsonValue] = {
        path: embed(schema, found) for path, schema in schema_places(document) if any(references_in(schema))
    }
    made = with_values(document, filled)
    if not isinstance(made, dict):
        raise TypeError("a document stays an object")
    return made


def _problem(
    reference: SchemaReference, found: NamedSchema | None, known: Collection[str], todo: str
) -> tuple[str, str, str | None]:
    if reference.name is None:
        return "SCHEMA_UNKNOWN", "is not the name of a schema", "write schema:NAME@VERSION, such as schema:order@1"
    if found is None:
        listed = f"; there is {', '.join(sorted(known))}" if known else ""
        meant = suggestion(reference.name, [name for name in known if name != reference.name])
        hint = meant or f"{todo}, or correct the name or the version{listed}"
        return "SCHEMA_UNKNOWN", "is not a schema that is known here", hint
    why = why_not_embedded(found.schema)
    if why is not None:
        return "SCHEMA_UNKNOWN", f"cannot be inlined into another schema: {why}", "register it without that"
    return "", "", None


def _mentions_any(document: JsonObject) -> bool:
    """Whether anything in a document looks like a reference to a named schema."""
    waiting: list[JsonValue] = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            reference = value.get("$ref")
            if isinstance(reference, str) and parse_reference(reference) is not None:
                return True
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
    return False
