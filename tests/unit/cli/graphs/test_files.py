"""Files of schemas and queries on the command line: checked with every mistake, formatted, and tested."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from penstock.cli.main import app
from tests.fixtures.graph_data import SCHEMA, TASKS_OF

EXAMPLE = Path(__file__).parents[4] / "examples" / "graphs" / "crm"


def ran(*arguments: str) -> tuple[int, Any]:
    found = CliRunner().invoke(app, [*arguments, "--json"], obj=0.0)
    return found.exit_code, json.loads(found.stdout)


def test_every_mistake_of_a_schema_is_told(tmp_path: Path) -> None:
    file = tmp_path / "bad.pg"
    file.write_text("node A { b: String @key }\nedge C: A -> D\nedge E: F -> A\n", encoding="utf-8")
    code, told = ran("graph", "schema", "check", str(file))
    assert (code, told["ok"]) == (1, False)
    assert len(told["files"][0]["findings"]) == 2
    assert ran("graph", "schema", "check", str(EXAMPLE))[0] == 0


def test_queries_are_checked_against_a_schema(tmp_path: Path) -> None:
    schema, queries = tmp_path / "schema.pg", tmp_path / "queries.gq"
    schema.write_text(SCHEMA, encoding="utf-8")
    queries.write_text(TASKS_OF, encoding="utf-8")
    assert ran("graph", "query", "validate", str(queries), "--schema", str(schema))[0] == 0
    queries.write_text(TASKS_OF.replace("User", "Usr"), encoding="utf-8")
    code, told = ran("graph", "query", "validate", str(queries), "--schema", str(schema))
    assert (code, told["files"][0]["findings"][0]["code"]) == (1, "T1")


def test_formatting_changes_a_file_once_and_a_check_writes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "queries.gq"
    file.write_text(TASKS_OF, encoding="utf-8")
    assert ran("graph", "query", "format", str(file), "--check")[0] == 1
    assert file.read_text(encoding="utf-8") == TASKS_OF
    assert ran("graph", "query", "format", str(file))[1]["files"][0]["status"] == "changed"
    assert ran("graph", "query", "format", str(file), "--check")[0] == 0
    assert ran("graph", "query", "format", str(EXAMPLE), "--check")[0] == 0
    file.write_text("query (", encoding="utf-8")
    assert ran("graph", "query", "format", str(file))[1]["files"][0]["status"] == "unreadable"
