"""Files of schemas (`.pg`) and queries (`.gq`): checked and formatted, without a server.

Exit codes: 0 when all files are fine, 1 when there are mistakes (or, with --check, files to format), 2 when a file
could not be read.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from penstock.base.json import JsonObject, JsonValue
from penstock.cli.declaration import Argument, Option, echo
from penstock.cli.terminal.console import console_for, count_words
from penstock.cli.terminal.exits import JsonOption, exit_with, print_json
from penstock.cli.terminal.findings import print_findings
from penstock.cli.terminal.values import UsageError
from penstock.definitions.source.findings import Finding, Severity
from penstock.graph.query.format import format_queries
from penstock.graph.query.read import read_queries
from penstock.graph.schema.format import format_schema
from penstock.graph.schema.model import Schema
from penstock.graph.schema.read import read_schema
from penstock.graph.typing.check import check_query

__all__ = [
    "check_schemas_command",
    "files_in",
    "format_command",
    "query_findings",
    "text_of",
    "validate_queries_command",
]

FilesArgument = Annotated[list[str], Argument(metavar="FILE...", help="Files, or folders to search for them.")]
SchemaOption = Annotated[
    str | None, Option("--schema", metavar="FILE", help="The schema (.pg) that the queries are for.")
]
_SCHEMA, _QUERIES = ".pg", ".gq"


def text_of(path: Path) -> str:
    """The text of a file; raises `UsageError` if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None


def files_in(named: list[str], *suffixes: str) -> list[Path]:
    """The files named, and those with the suffixes in the folders named."""
    found: list[Path] = []
    for text in named:
        path = Path(text)
        found += sorted(item for item in path.rglob("*") if item.suffix in suffixes) if path.is_dir() else [path]
    if not found:
        raise UsageError(f"there are no {' or '.join(suffixes)} files in {', '.join(named)}")
    return found


def query_findings(text: str, schema: Schema) -> tuple[Finding, ...]:
    """Everything that is wrong with a file of queries."""
    reading = read_queries(text)
    if reading.findings:
        return reading.findings
    return tuple(finding for query in reading.queries for finding in check_query(query, schema).findings)


def _report(checked: list[tuple[Path, str, tuple[Finding, ...]]], *, as_json: bool) -> int:
    errors = sum(item.severity is Severity.ERROR for _, _, found in checked for item in found)
    if as_json:
        files: list[JsonValue] = [
            {"file": str(path), "findings": [finding.to_json() for finding in found]} for path, _, found in checked
        ]
        print_json({"ok": errors == 0, "files": files})
        return 1 if errors else 0
    console = console_for(sys.stdout)
    for path, text, found in checked:
        print_findings(console, found, label=str(path), text=text)
    echo(f"{count_words(len(checked), 'file')} checked: {count_words(errors, 'error')}")
    return 1 if errors else 0


def check_schemas_command(files: FilesArgument, *, as_json: JsonOption = False) -> None:
    """Check schemas of graphs in files.

    Every mistake is printed with its place. Exits with 0 when all is well, 1 when there are errors.
    """

    def work() -> int:
        texts = [(path, text_of(path)) for path in files_in(files, _SCHEMA)]
        return _report([(path, text, read_schema(text).findings) for path, text in texts], as_json=as_json)

    exit_with(work, as_json=as_json)


def validate_queries_command(files: FilesArgument, *, schema: SchemaOption = None, as_json: JsonOption = False) -> None:
    """Check files of queries against a schema.

    Every mistake of every query is printed with its place and its code.
    """

    def work() -> int:
        if schema is None:
            raise UsageError("name the schema of the queries with --schema FILE")
        schema_text = text_of(Path(schema))
        reading = read_schema(schema_text)
        if reading.schema is None:
            return _report([(Path(schema), schema_text, reading.findings)], as_json=as_json)
        texts = [(path, text_of(path)) for path in files_in(files, _QUERIES)]
        found = reading.schema
        return _report([(path, text, query_findings(text, found)) for path, text in texts], as_json=as_json)

    exit_with(work, as_json=as_json)


def format_command(
    files: FilesArgument,
    *,
    check: Annotated[bool, Option("--check", help="Write nothing; exit with 1 if a file would change.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Format files of schemas and queries, in place.

    Comments stay where they are. A file that cannot be read as what it is stays as it is.
    """

    def work() -> int:
        outcomes: list[JsonValue] = []
        code = 0
        for path in files_in(files, _SCHEMA, _QUERIES):
            outcome = _formatted(path, check=check)
            outcomes.append(outcome)
            if outcome["status"] == "unreadable" or (check and outcome["status"] == "changed"):
                code = 1
            if not as_json:
                echo(f"{outcome['status']}  {path}")
        if as_json:
            print_json({"ok": code == 0, "files": outcomes})
        return code

    exit_with(work, as_json=as_json)


def _formatted(path: Path, *, check: bool) -> JsonObject:
    text = text_of(path)
    formatted = format_schema(text) if path.suffix == _SCHEMA else format_queries(text)
    if not isinstance(formatted, str):
        return {"file": str(path), "status": "unreadable", "findings": [item.to_json() for item in formatted]}
    if formatted == text:
        return {"file": str(path), "status": "unchanged"}
    if not check:
        path.write_text(formatted, encoding="utf-8")
    return {"file": str(path), "status": "changed"}
