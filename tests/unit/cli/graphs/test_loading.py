"""Loading a file on the command line, in as many pieces as it takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from penstock.base import limits
from penstock.cli.graphs.loading import _characters_at_once, _pieces
from penstock.cli.main import app
from penstock.cli.targets.selection import ServerTarget
from tests.fixtures.graph_data import CLOSE_TASK, DATA, SCHEMA


def test_a_large_file_is_loaded_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # Only for the command: the limit is also part of a schema, which is made once in this process.
    monkeypatch.setattr("penstock.cli.graphs.loading._characters_at_once", lambda target: 200)
    (tmp_path / "data.jsonl").write_text(DATA, encoding="utf-8")
    runner = CliRunner()
    made = runner.invoke(app, ["graph", "create", "--id", "crm", "--schema", SCHEMA, "--json"], obj=0.0)
    assert made.exit_code == 0, made.output
    loaded = runner.invoke(app, ["graph", "load", "crm", "data.jsonl", "--json"], obj=0.0)
    assert loaded.exit_code == 0, loaded.output
    pieces = json.loads(loaded.stdout)["pieces"]
    assert len(pieces) > 1
    assert sum(piece["total_entities"] for piece in pieces) == 6
    refused = runner.invoke(app, ["graph", "load", "crm", "data.jsonl", "--mode", "overwrite"], obj=0.0)
    assert refused.exit_code == 2


def test_a_file_that_no_request_could_hold_is_one_commit_of_a_database_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    handles = [f"{number}\u2028{'x' * 900}" for number in range(limits.REQUEST_BYTES_MAX // 900 + 1)]
    lines = [json.dumps({"type": "User", "data": {"handle": handle}}, ensure_ascii=False) for handle in handles]
    (tmp_path / "data.jsonl").write_text("\n".join(lines), encoding="utf-8")
    runner = CliRunner()
    made = runner.invoke(app, ["graph", "create", "--id", "crm", "--schema", SCHEMA, "--json"], obj=0.0)
    assert made.exit_code == 0, made.output
    loaded = runner.invoke(app, ["graph", "load", "crm", "data.jsonl", "--mode", "overwrite", "--json"], obj=0.0)
    assert loaded.exit_code == 0, loaded.output
    assert [piece["total_entities"] for piece in json.loads(loaded.stdout)["pieces"]] == [len(handles)]


def test_a_piece_for_a_server_fits_into_a_request_however_it_is_escaped() -> None:
    line = '"' * 1_000 + "\n"
    pieces = list(_pieces(line * 5_000, _characters_at_once(ServerTarget("http://127.0.0.1:1"))))
    assert len(pieces) > 1
    assert "".join(pieces) == line * 5_000
    assert all(len(json.dumps({"data": piece})) < limits.REQUEST_BYTES_MAX for piece in pieces)


def test_branches_are_named_and_queries_are_read_from_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.jsonl").write_text(DATA, encoding="utf-8")
    (tmp_path / "close.gq").write_text(CLOSE_TASK, encoding="utf-8")
    runner = CliRunner()

    def ran(*arguments: str) -> dict[str, Any]:
        found = runner.invoke(app, [*arguments, "--json"], obj=0.0)
        assert found.exit_code == 0, found.output
        answer: dict[str, Any] = json.loads(found.stdout)
        return answer

    ran("graph", "create", "--id", "crm", "--schema", SCHEMA)
    ran("graph", "load", "crm", "data.jsonl", "--branch", "import", "--source", "main")
    ran("graph", "branch", "merge", "crm", "--source", "import")
    ran("graph", "query", "put", "crm", "close_task", "--file", "close.gq")
    ran("graph", "branch", "create", "crm", "--name", "work", "--source", "main")
    ran("graph", "query", "run", "crm", "close_task", "--params", '{"slug": "t1"}', "--branch", "work")
    assert [item["entity_id"] for item in ran("graph", "diff", "crm", "--source", "work")["changes"]] == ["t1"]
    # What is exported is loaded elsewhere, without the history.
    (tmp_path / "copy.jsonl").write_text(ran("graph", "export", "crm")["data"], encoding="utf-8")
    ran("graph", "create", "--id", "copy", "--schema", SCHEMA)
    ran("graph", "load", "copy", "copy.jsonl")
    assert ran("graph", "export", "copy")["data"] == ran("graph", "export", "crm")["data"]
    assert [item["kind"] for item in ran("graph", "commit", "list", "copy")["commits"]] == ["load", "create"]
