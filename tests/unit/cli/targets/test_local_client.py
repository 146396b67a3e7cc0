"""Commands on a file pass the gate as its owner, under the policies that the settings declare."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from penstock.app.gate import open_gate
from penstock.app.penstock import Penstock
from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject
from penstock.cli.targets.local_client import open_local_client
from penstock.cli.targets.settings import command_settings
from tests.fixtures.graph_data import DATA, written_graph

READS = '@id("reads") permit (principal, action in Action::"graph:read", resource);'


def test_policies_of_a_graph_hold_for_commands_on_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    declared = written_graph(tmp_path)
    (tmp_path / "penstock.yaml").write_text(f"graphs:\n  {declared}\n", encoding="utf-8")

    async def serve_once() -> None:
        graphs = command_settings().settings.declared_graphs
        async with Penstock.open(tmp_path / "penstock.db") as penstock, open_gate(penstock, graphs=graphs):
            pass

    asyncio.run(serve_once())
    load: JsonObject = {"graph_id": "crm", "data": DATA}
    with open_local_client(Path("penstock.db"), create=False, changes=True) as client:
        client.call("graph.load", load)
    (tmp_path / "crm.cedar").write_text(READS, encoding="utf-8")
    guarded = declared.replace("}", ", policy: [crm.cedar]}")
    (tmp_path / "penstock.yaml").write_text(f"graphs:\n  {guarded}\n", encoding="utf-8")
    with open_local_client(Path("penstock.db"), create=False, changes=True) as client:
        assert client.call("graph.schema_get", {"graph_id": "crm"})
        with pytest.raises(PenstockError) as caught:
            client.call("graph.load", load)
        assert caught.value.code == "POLICY_DENIED"
    (tmp_path / "crm.cedar").write_text("permit (", encoding="utf-8")
    with (
        pytest.raises(PenstockError) as caught,
        open_local_client(Path("penstock.db"), create=False, changes=False),
    ):
        pass
    assert caught.value.code == "POLICY_INVALID"


def test_a_backup_of_the_file_goes_to_the_folder_of_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "penstock.yaml").write_text("storage: {backup_folder: kept}\n", encoding="utf-8")
    (tmp_path / "kept").mkdir()
    with open_local_client(Path("penstock.db"), create=True, changes=True) as client:
        made = client.call("backup.create", {})
    assert isinstance(made, dict)
    assert [path.name for path in (tmp_path / "kept").iterdir()] == [made["name"]]
