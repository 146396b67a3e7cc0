"""Workflow files of a real server: it does not start without them, and says when they are gone or damaged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.live.cli.processes import Shop
from tests.live.rest.servers import LiveServer, serving
from tests.waiting import wait_until

GREET = "penstock: v1\nname: greet\nnodes:\n  - {id: done, type: end, output: hello}\n"


@pytest.mark.parametrize("command", ["serve", "server worker", "mcp"])
@pytest.mark.parametrize("text", ["", "# only a comment\n", None])
def test_a_process_does_not_start_with_a_named_workflow_file_that_says_nothing(
    tmp_path: Path, command: str, text: str | None
) -> None:
    shop = Shop(tmp_path)
    if text is not None:
        shop.write("flow.yaml", text)
    ended = shop.run(*command.split(), "--db", "penstock.db", "--workflows", "flow.yaml")
    assert ended.returncode == 2, ended.stderr
    assert "flow.yaml" in ended.stderr
    assert not (tmp_path / "penstock.db").exists()


def checks(server: LiveServer) -> tuple[int, dict[str, Any]]:
    return server.request("GET", "/readyz").status, server.call("GET", "health")["checks"]


def test_a_server_says_which_workflow_file_it_cannot_use_and_keeps_the_version_before(tmp_path: Path) -> None:
    flow, other = tmp_path / "flow.yaml", tmp_path / "more/other.yaml"
    other.parent.mkdir()
    flow.write_text(GREET, encoding="utf-8")
    other.write_text(GREET.replace("greet", "other"), encoding="utf-8")
    with serving(tmp_path, "--workflows", "flow.yaml", "--workflows", "more") as server:
        status, found = checks(server)
        assert (status, found["workflows"], found["workflow_files"]) == (200, "ok", "ok")
        flow.unlink()
        wait_until(lambda: checks(server)[0] == 503)
        assert "flow.yaml" in checks(server)[1]["workflow_files"]
        assert server.call("POST", "workflows/greet/executions", {"sync": True})["output"] == "hello"
        flow.write_text(GREET.replace("hello", "bonjour"), encoding="utf-8")
        wait_until(lambda: checks(server)[0] == 200)
        assert server.call("POST", "workflows/greet/executions", {"sync": True})["output"] == "bonjour"
        other.write_text(GREET.replace("greet", "other").replace("type: end", "type: ned"), encoding="utf-8")
        wait_until(lambda: "UNKNOWN_NODE_TYPE" in checks(server)[1]["workflows"])
        assert checks(server)[0] == 200  # one mistake quarantines its file only
        assert server.call("POST", "workflows/other/executions", {"sync": True})["output"] == "hello"
