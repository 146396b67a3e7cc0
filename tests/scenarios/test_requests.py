"""What a request is, is read from what it says: a path from its slashes, a method from its body."""

from __future__ import annotations

from pathlib import Path

from tests.live.rest.servers import serving

GREET = {"penstock": "v1", "name": "greet", "nodes": [{"id": "done", "type": "end", "output": "hello"}]}


def test_a_written_slash_never_selects_another_route(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        server.call("POST", "workflows", {"document": GREET})
        key = server.call("POST", "keys", {"name": "other", "scopes": ["workflow:read"]})["key"]["id"]
        # Each would be another operation if the slash parted the path.
        for method, path, code in (
            ("GET", "workflows%2Fgreet", "ROUTE_NOT_FOUND"),
            ("GET", "workflows/greet%2fversions", "WORKFLOW_NOT_FOUND"),
            ("POST", "workflows/greet%2Fexecutions", "METHOD_NOT_ALLOWED"),
            ("POST", f"keys/{key}%2Frevoke", "METHOD_NOT_ALLOWED"),
            ("GET", f"keys%2F{key}", "ROUTE_NOT_FOUND"),
            ("GET", "executions/a%2Fhistory", "EXECUTION_NOT_FOUND"),
        ):
            answer = server.request(method, path, {} if method == "POST" else None)
            assert answer.json()["code"] == code, path
        assert "workflow greet/versions" in server.request("GET", "workflows/greet%2fversions").json()["detail"]
        assert server.call("GET", f"keys/{key}")["status"] == "active"
        assert server.call("GET", "executions")["items"] == []
        # What is written otherwise means the same.
        assert server.call("GET", "workflows/gr%65et")["id"] == "greet"
