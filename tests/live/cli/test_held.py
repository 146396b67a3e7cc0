"""Commands whose call is held say so, with the draft and what to do next, and exit with the code for what waits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.cli.main import app
from penstock.cli.terminal.exits import STILL_WAITING
from tests.fixtures.graph_data import DATA, SCHEMA
from tests.live.rest.servers import LiveServer, serving
from tests.scenarios.office import ERASE


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server with a dangerous workflow, and a graph whose main branch is protected."""
    with serving(tmp_path_factory.mktemp("held")) as running:
        running.call("POST", "workflows", {"document": ERASE})
        running.call("POST", "graphs", {"id": "crm", "schema": SCHEMA, "protected_branches": ["main"]})
        yield running


@pytest.fixture(scope="module")
def robot(server: LiveServer) -> str:
    """The key of an agent."""
    made = server.call("POST", "keys", {"name": "robot", "kind": "agent", "scopes": ["*"]})
    return str(made["secret"])


HELD = {
    "graph.load": ("graphs", "load", "crm", "data.jsonl"),
    "workflow.execute": ("workflow", "start", "erase_customer", "--input", '{"customer": "C-1"}'),
    "workflow.delete": ("workflow", "delete", "erase_customer"),
}


@pytest.mark.parametrize("operation", HELD)
def test_a_command_whose_call_is_held_names_the_draft_and_what_to_do(
    server: LiveServer, robot: str, operation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_API_KEY", robot)
    (tmp_path / "data.jsonl").write_text(DATA, encoding="utf-8")
    runner, words = CliRunner(), [*HELD[operation], "--server", server.url]
    shown = runner.invoke(app, words, obj=0.0)
    assert shown.exit_code == STILL_WAITING, shown.output
    listed = server.call("GET", "drafts?status=open&limit=500")["items"]
    [draft] = [item["id"] for item in listed if item["id"] in shown.stderr]
    assert f"{operation} is held" in shown.stderr
    assert f"penstock approval approve {draft}" in shown.stderr
    told = runner.invoke(app, [*words, "--json"], obj=0.0)
    assert told.exit_code == STILL_WAITING, told.output
    assert json.loads(told.stdout)["held"]["operation"] == operation
