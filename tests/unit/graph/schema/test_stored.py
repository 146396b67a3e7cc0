"""Schemas as JSON."""

from __future__ import annotations

import json

from penstock.graph.schema.read import read_schema
from penstock.graph.schema.stored import schema_from_json, schema_to_json

TEXT = """
interface Named { name: String }
node Doc @title("Document") implements Named {
    slug: String @key
    name: String
    size: I64? @rename_from("bytes")
    kind: enum(a, b)
    tags: [String]?
    body: Blob?
    place: Vector(3)? @embed("name", model="m")
    @unique(name, kind)
    @index(size)
    @range(size, ..10)
    @check(name, "[a-z]+")
}
edge Cites: Doc -> Doc @card(1..3) { weight: F32?  @unique(src, dst) }
"""


def test_a_schema_comes_back_from_its_json() -> None:
    reading = read_schema(TEXT)
    assert reading.schema is not None, reading.findings
    stored = json.loads(json.dumps(schema_to_json(reading.schema)))
    assert schema_from_json(stored) == reading.schema
