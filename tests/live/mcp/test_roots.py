"""Folders are lent to the process of another MCP server during a call only, whenever it asks."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.live.rest.servers import serving
from tests.waiting import wait_until

NOSY = Path(__file__).parents[2] / "fixtures/nosy_server.py"
REFUSED = "folders are listed during a call of a tool only"
LOOK: dict[str, Any] = {
    "penstock": "v1",
    "name": "look",
    "nodes": [
        {"id": "look", "type": "tool_call", "server": "nosy", "tool": "look", "arguments": {}},
        {"id": "done", "type": "end", "output": "${ .look }"},
    ],
}


def test_a_server_process_learns_its_folders_during_a_call_and_not_before_or_after(tmp_path: Path) -> None:
    lent, heard = tmp_path / "lent", tmp_path / "heard"
    lent.mkdir()
    heard.touch()
    named = {"command": sys.executable, "args": [str(NOSY), str(heard)], "roots": {"default": [str(lent)]}}
    settings = {"mcp_servers": {"nosy": {**named, "import": {"tools": ["*"], "accept": "first"}}}}
    (tmp_path / "penstock.yaml").write_text(json.dumps(settings), encoding="utf-8")

    def answers() -> list[Any]:
        return [json.loads(line) for line in heard.read_text(encoding="utf-8").splitlines()]

    with serving(tmp_path) as server:
        server.call("POST", "workflows", {"document": LOOK})
        for _ in range(2):
            ended = server.call("POST", "workflows/look/executions", {"sync": True})
            assert ended["status"] == "completed", ended
            assert lent.as_uri() in json.dumps(ended["output"])
        wait_until(lambda: answers().count(["after", REFUSED]) == 2)
    told = answers()
    assert ["before", REFUSED] in told
    assert [answer for moment, answer in told if moment == "during"] == [[lent.as_uri()]] * 2
    # The connection that only lists tools lends nothing at all.
    assert {answer for moment, answer in told if moment == "before"} <= {REFUSED, "List roots not supported"}
