"""`penstock workflow json-schema`: the JSON Schema of the workflow document, for editors."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated

from penstock.base.json import JsonObject
from penstock.cli.declaration import Option, echo
from penstock.definitions.editor_schema import document_schema, native_schema, published_schema

__all__ = ["SchemaFormat", "schema_command"]


class SchemaFormat(StrEnum):
    """Which documents the schema is for."""

    NATIVE = "native"
    PUBLISHED = "published"
    ALL = "all"


def schema_command(
    *,
    document_format: Annotated[
        SchemaFormat, Option("--format", help="Which documents the schema is for.")
    ] = SchemaFormat.ALL,
) -> None:
    """Print the JSON Schema of workflow documents, for editors.

    Point your editor at it to get completion and checks while you type.
    """
    echo(json.dumps(_schema_of(document_format), indent=2, ensure_ascii=False))


def _schema_of(document_format: SchemaFormat) -> JsonObject:
    match document_format:
        case SchemaFormat.NATIVE:
            return native_schema()
        case SchemaFormat.PUBLISHED:
            return published_schema()
        case SchemaFormat.ALL:
            return document_schema()
