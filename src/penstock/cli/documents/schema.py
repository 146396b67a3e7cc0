"""`penstock schema`: the JSON Schema of the workflow document, for editors; `penstock schema check`: graph schemas."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated

import typer

from penstock.base.json import JsonObject
from penstock.cli.lazy_commands import LazyCommand, lazy_group
from penstock.definitions.editor_schema import document_schema, native_schema, published_schema

__all__ = ["SchemaFormat", "schema_app", "schema_command"]

_COMMANDS = {"check": LazyCommand("penstock.cli.graphs.files", "check_schemas_command", "Check schemas of graphs.")}
schema_app = typer.Typer(
    name="schema", cls=lazy_group(lambda: _COMMANDS), add_completion=False, rich_markup_mode="markdown"
)


class SchemaFormat(StrEnum):
    """Which documents the schema is for."""

    NATIVE = "native"
    PUBLISHED = "published"
    ALL = "all"


@schema_app.callback(invoke_without_command=True)
def schema_command(
    context: typer.Context,
    *,
    document_format: Annotated[
        SchemaFormat, typer.Option("--format", help="Which documents the schema is for.")
    ] = SchemaFormat.ALL,
) -> None:
    """Print the JSON Schema of workflow documents.

    Point your editor at it to get completion and checks while you type.
    """
    if context.invoked_subcommand is None:
        typer.echo(json.dumps(_schema_of(document_format), indent=2, ensure_ascii=False))


def _schema_of(document_format: SchemaFormat) -> JsonObject:
    match document_format:
        case SchemaFormat.NATIVE:
            return native_schema()
        case SchemaFormat.PUBLISHED:
            return published_schema()
        case SchemaFormat.ALL:
            return document_schema()
