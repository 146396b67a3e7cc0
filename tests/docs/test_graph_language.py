"""The graph languages: the examples in the guides are right, and the reference names every code of the checks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from docs.generator.graph_findings import GRAPH_FINDINGS, SCHEMA_STEPS
from penstock.definitions.source.findings import Severity
from penstock.graph.query.read import read_queries
from penstock.graph.records import parse_records
from penstock.graph.schema.format import format_schema
from penstock.graph.schema.model import Schema
from penstock.graph.schema.read import read_schema
from penstock.graph.typing.check import check_query

ROOT = Path(__file__).parents[2]
GUIDE = "".join(
    (ROOT / "docs" / "guides" / f"{name}.md").read_text(encoding="utf-8") for name in ("graph-schema", "graph-language")
)
CODE = re.compile(r"T[0-9]+|OG-[A-Z]{2}-[0-9]+|[A-Z]+(_[A-Z]+)+|SYNTAX|LIMIT|CARDINALITY|UNCONNECTED")


def blocks(language: str) -> list[str]:
    found = re.findall(rf"^```{language}\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    assert found
    return found


def schema() -> Schema:
    (text,) = blocks("pg")
    reading = read_schema(text)
    assert reading.findings == ()
    assert reading.schema is not None
    return reading.schema


def test_the_schema_is_right_and_formatted() -> None:
    assert schema().node_types["Person"].key == ("handle",)
    (text,) = blocks("pg")
    assert format_schema(text) == text


def test_every_query_is_right() -> None:
    names = []
    for text in blocks("gq"):
        reading = read_queries(text)
        assert reading.findings == ()
        for query in reading.queries:
            checking = check_query(query, schema())
            assert [each for each in checking.findings if each.severity is Severity.ERROR] == []
            assert checking.query is not None
            names.append(query.name)
    assert len(names) == len(set(names)) >= 8


def test_every_record_is_right() -> None:
    (text,) = blocks("ndjson")
    for record in parse_records(text.splitlines(), schema()):
        assert not isinstance(record, tuple), record


def reported() -> Iterator[str]:
    """Every text of the packages that looks like a code, apart from exported names."""
    for folder in ("syntax", "schema", "query", "typing"):
        for path in (ROOT / "src" / "penstock" / "graph" / folder).glob("*.py"):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            exported = {
                id(node)
                for statement in tree.body
                if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__"
                for node in ast.walk(statement)
            }
            for node in ast.walk(tree):
                if isinstance(node, ast.Constant) and id(node) not in exported and CODE.fullmatch(str(node.value)):
                    yield str(node.value)


def test_the_reference_names_every_code_once_and_no_other() -> None:
    described = [name for names in (*GRAPH_FINDINGS, *SCHEMA_STEPS) for name in names.split()]
    assert set(reported()) == set(described)
    assert len(described) == len(set(described))
