"""The audit trail of a real server: what records say on each surface, and checkpoints that a stranger verifies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from penstock.cli.main import app
from penstock.governance.audit.checkpoints import parse_notes
from tests.live.mcp.clients import ERAS, connected
from tests.live.rest.servers import LiveServer, serving
from tests.waiting import wait_until

pytestmark = pytest.mark.anyio
GREET = {
    "penstock": "v1",
    "name": "greet",
    "expose": {"tool": True},
    "nodes": [{"id": "done", "type": "end"}],
}
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture(scope="module")
def anchor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("anchor") / "anchor.txt"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, anchor: Path) -> Iterator[LiveServer]:
    """A server that signs its trail after every few records, into a file."""
    settings = {
        "PENSTOCK_AUDIT_CHECKPOINTS_EVERY_ENTRIES": "3",
        "PENSTOCK_AUDIT_CHECKPOINTS_FILES": str(anchor),
        "PENSTOCK_LIMITS_ADMIN_PER_MINUTE": "1000000",
    }
    with serving(tmp_path_factory.mktemp("server"), **settings) as running:
        running.call("POST", "workflows", {"document": GREET})
        yield running


def newest(server: LiveServer, operation: str) -> dict[str, Any]:
    found: dict[str, Any] = server.call("GET", f"audit?operation={operation}&limit=1")["items"][0]
    return found


def test_over_rest_a_record_names_program_trace_and_address(server: LiveServer) -> None:
    headers = {"user-agent": "shop/3", "traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
    server.call("POST", "workflows/greet/executions", {"execution_id": "r1"}, headers=headers)
    found = newest(server, "workflow.execute")
    assert (found["client"], found["trace_id"], found["remote"]) == ("shop/3", TRACE, "127.0.0.1")
    assert (found["run_id"], found["principal_kind"], found["surface"]) == ("r1", "person", "rest")
    assert found["credential"]


@pytest.mark.parametrize("era", ERAS)
async def test_over_mcp_a_record_names_the_client(server: LiveServer, era: str) -> None:
    async with connected(server, era) as client:
        await client.call_tool("greet", {})
    found = next(item for item in server.call("GET", "audit")["items"] if item["surface"] == "mcp")
    assert found["subject"] == "greet"
    assert found["client"].startswith("mcp/"), found["client"]


def test_checkpoints_reach_the_file_and_a_stranger_verifies_the_trail_with_them(
    server: LiveServer, anchor: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        server.call("POST", "schemas", {"id": f"s{number}", "schema": {}})
    wait_until(lambda: anchor.exists() and parse_notes(anchor.read_text(encoding="utf-8")))
    monkeypatch.setenv("PENSTOCK_API_KEY", server.key)
    key, trail = tmp_path / "key.txt", tmp_path / "trail.jsonl"
    runner = CliRunner()
    printed = runner.invoke(app, ["audit", "key", "--server", server.url])
    key.write_text(printed.stdout, encoding="utf-8")
    written = runner.invoke(app, ["audit", "export", "--server", server.url, "--out", str(trail)])
    assert written.exit_code == 0, written.output
    arguments = ["audit", "verify", "--public-key", str(key), str(trail), "--against", str(anchor)]
    found = runner.invoke(app, arguments)
    assert found.exit_code == 0, found.output
    assert "chain intact" in found.stdout
    cut = tmp_path / "cut.jsonl"
    lines = trail.read_text(encoding="utf-8").splitlines(keepends=True)
    cut.write_text("".join(line for line in lines if json.loads(line).get("seq", 0) <= 1), encoding="utf-8")
    assert runner.invoke(app, [*arguments[:4], str(cut), *arguments[5:]]).exit_code == 1
    assert server.call("POST", "audit/verify", {"against": anchor.read_text(encoding="utf-8")})["intact"]


def test_strangers_are_read_by_the_owner_over_rest(server: LiveServer) -> None:
    refused = server.request("GET", "workflows", key="nonsense", headers={"user-agent": "probe/1"})
    assert refused.status == 401

    def recorded() -> bool:
        items = server.call("GET", "audit?strangers=true")["items"]
        return any(item["client"] == "probe/1" and item["code"] == "UNAUTHENTICATED" for item in items)

    wait_until(recorded)
