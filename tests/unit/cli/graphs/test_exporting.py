"""Exporting a graph on the command line: records that can be loaded again, and Parquet with faithful types."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyarrow import parquet

from penstock.base import limits
from penstock.cli.main import app

SCHEMA = """
node Item {
    slug: String @key
    small: I32?  large: I64?  count: U32?  big: U64?
    ratio: F32?  score: F64?  is_on: Bool?
    day: Date?  at: DateTime?  photo: Blob?
    mood: enum(calm, glad)?
    tags: [String]?  days: [Date]?  numbers: [I64]?
    place: Vector(3)?
}
node Note { text: String }
edge Likes: Item -> Item { since: Date? }
"""
FULL = {
    "slug": "ä-1",
    "small": -(2**31),
    "large": str(2**63 - 1),
    "count": 2**32 - 1,
    "big": str(2**63 - 1),
    "ratio": 0.5,
    "score": 0.1,
    "is_on": True,
    "day": "0001-01-01",
    "at": "2026-01-31T09:00:00.123Z",
    "photo": "base64:AP8=",
    "mood": "glad",
    "tags": ["a", "ü"],
    "days": ["2026-01-31"],
    "numbers": [],
    "place": [0.5, -1.0, 2.0],
}
RECORDS: list[dict[str, Any]] = [
    {"type": "Item", "data": FULL},
    {"type": "Item", "data": {"slug": "b"}},
    {"edge": "Likes", "id": "e1", "from": "b", "to": "ä-1", "data": {"since": "2026-02-01"}},
]


class Shell:
    """Commands on a file of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run("graph", "create", "--id", "shop", "--schema", SCHEMA, "--json")
        lines = "".join(json.dumps(each) + "\n" for each in RECORDS)
        (folder / "data.jsonl").write_text(lines, encoding="utf-8")
        self.run("graph", "load", "shop", "data.jsonl")

    def run(self, *arguments: str, exit_code: int = 0) -> str:
        found = CliRunner().invoke(app, list(arguments), obj=0.0)
        assert found.exit_code == exit_code, found.output
        return found.output


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.chdir(tmp_path)
    return Shell(tmp_path)


def test_parquet_has_the_types_and_values_of_the_graph(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.cli.graphs.exporting._RECORDS_OF_A_PAGE", 2)
    monkeypatch.setattr(limits, "GRAPH_EXPORT_ROWS_TOGETHER", 1)
    told = json.loads(shell.run("graph", "export", "shop", "--format", "parquet", "--out", "data/shop", "--json"))
    folder = shell.folder / "data" / "shop"
    assert told["files"] == {"Item": 2, "Note": 0, "Likes": 1}
    assert sorted(path.name for path in folder.iterdir()) == ["Item.parquet", "Likes.parquet", "Note.parquet"]
    items = parquet.read_table(folder / "Item.parquet")
    assert {field.name: str(field.type) for field in items.schema} == {
        "@id": "string",
        "slug": "string",
        "small": "int32",
        "large": "int64",
        "count": "uint32",
        "big": "uint64",
        "ratio": "float",
        "score": "double",
        "is_on": "bool",
        "day": "date32[day]",
        "at": "timestamp[ms, tz=UTC]",
        "photo": "large_binary",
        "mood": "string",
        "tags": "list<element: string not null>",
        "days": "list<element: date32[day] not null>",
        "numbers": "list<element: int64 not null>",
        "place": "fixed_size_list<element: float not null>[3]",
    }
    assert not items.schema.field("slug").nullable
    assert items.schema.field("mood").nullable
    assert items.schema.metadata[b"penstock.commit"].decode() == told["graph_commit_id"]
    full, empty = sorted(items.to_pylist(), key=lambda row: row["slug"], reverse=True)
    assert full == {
        **FULL,
        "@id": "ä-1",
        "large": 2**63 - 1,
        "big": 2**63 - 1,
        "day": date(1, 1, 1),
        "at": datetime(2026, 1, 31, 9, 0, 0, 123_000, tzinfo=UTC),
        "photo": b"\x00\xff",
        "days": [date(2026, 1, 31)],
    }
    assert {name for name, value in empty.items() if value is not None} == {"@id", "slug"}
    (likes,) = parquet.read_table(folder / "Likes.parquet").to_pylist()
    assert likes == {"@id": "e1", "@src": "b", "@dst": "ä-1", "since": date(2026, 2, 1)}
    assert parquet.read_table(folder / "Note.parquet").num_rows == 0


def test_records_are_printed_or_written_and_can_be_loaded_again(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.cli.graphs.exporting._RECORDS_OF_A_PAGE", 2)
    printed = shell.run("graph", "export", "shop")
    assert [json.loads(line)["data"].get("slug") for line in printed.splitlines()] == ["b", "ä-1", None]
    shell.run("graph", "export", "shop", "--out", "copy.jsonl")
    assert (shell.folder / "copy.jsonl").read_text(encoding="utf-8") == printed
    shell.run("graph", "create", "--id", "copy", "--schema", SCHEMA, "--json")
    shell.run("graph", "load", "copy", "copy.jsonl")
    assert shell.run("graph", "export", "copy") == printed
    page = json.loads(shell.run("graph", "export", "shop", "--limit", "1", "--json"))
    assert (page["records"], page["data"]) == (1, printed.splitlines(keepends=True)[0])
    going_on = ("--snapshot", page["graph_commit_id"], "--cursor", page["next_cursor"])
    page = json.loads(shell.run("graph", "export", "shop", *going_on, "--limit", "1", "--json"))
    assert (page["records"], page["data"]) == (1, printed.splitlines(keepends=True)[1])
    assert page["next_cursor"] is not None


def test_what_cannot_be_exported_is_refused_and_leaves_no_files(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "needs --out FOLDER" in shell.run("graph", "export", "shop", "--format", "parquet", exit_code=2)
    (shell.folder / "full").mkdir()
    (shell.folder / "full" / "other.txt").touch()
    told = shell.run("graph", "export", "shop", "--format", "parquet", "--out", "full", "--json", exit_code=5)
    assert json.loads(told)["error"]["code"] == "FOLDER_NOT_EMPTY"
    first = json.loads(shell.run("graph", "export", "shop", "--json"))["graph_commit_id"]
    renamed = SCHEMA.replace("mood: enum", "feeling: enum").replace("glad)?", 'glad)? @rename_from("mood")')
    shell.run("graph", "schema", "apply", "shop", "--schema", renamed, "--json")
    told = shell.run(
        *("graph", "export", "shop", "--snapshot", first, "--format", "parquet", "--out", "old", "--json"), exit_code=5
    )
    assert json.loads(told)["error"]["code"] == "EXPORT_SCHEMA_CHANGED"
    assert list((shell.folder / "old").iterdir()) == []
    monkeypatch.setattr("penstock.cli.graphs.parquet.find_spec", lambda name: None)
    told = shell.run("graph", "export", "shop", "--format", "parquet", "--out", "new", "--json", exit_code=8)
    assert json.loads(told)["error"]["code"] == "EXTRA_NOT_INSTALLED"
    assert "pyarrow" in told
    assert not (shell.folder / "new").exists()
