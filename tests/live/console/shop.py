"""What the pages about workflows, agents, tools, keys, schedules, webhooks and the system show in tests.

Hostile texts stand wherever they fit. Below it: `visiting`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock.runtime.executors.mcp.config import command_name
from tests.live.console.visiting import HOSTILE
from tests.live.rest.servers import LiveServer, serving

__all__ = ["LINK", "LONG", "ORDER", "PLAIN", "shop_keeping"]

UPSTREAM = Path(__file__).parents[2] / "fixtures" / "upstream_server.py"
LINK = "[see](javascript:alert(1)) javascript:alert(1)"
LONG = "m" * 1_000_000
SETTINGS: dict[str, Any] = {
    "mcpServers": {
        "shop": {
            "command": sys.executable,
            "args": [str(UPSTREAM), "said.txt"],
            "import": {"tools": ["search", "order"]},
        },
        "chatty": {"command": sys.executable, "args": [str(UPSTREAM.with_name("mcp_tools_server.py"))]},
    },
    "mcp_allow_commands": [command_name(sys.executable)],
    "steps": {"modules": [str(Path(__file__).with_name("working.py"))]},
    "storage": {"backup_folder": "backups"},
    "telemetry": {"trace_url": "https://traces.example/trace/{trace_id}?from=penstock"},
}
ORDER: dict[str, Any] = {
    "penstock": "v1",
    "name": "order",
    "version": "1.0.0",
    "title": f"Order {HOSTILE}",
    "description": f"Orders. {HOSTILE} {LINK}",
    "expose": {"tool": {"name": "order", "description": HOSTILE}},
    "input": {
        "type": "object",
        "required": ["amount", "item", "password"],
        "properties": {
            "amount": {"type": "integer", "minimum": 1, "title": f"Amount {HOSTILE}"},
            "item": {"type": "string", "enum": ["tea", HOSTILE]},
            "on": {"type": "string", "format": "date"},
            "gift": {"type": "boolean"},
            "password": {"type": "string", "minLength": 3, "writeOnly": True},
            "address": {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}},
            "notes": {"type": "array", "items": {"type": "string"}},
        },
    },
    "nodes": [
        {
            "id": "many",
            "type": "switch",
            "title": HOSTILE,
            "cases": [{"when": ".input.amount > 10", "next": "ask"}],
            "default": "done",
        },
        {"id": "ask", "type": "interrupt", "message": HOSTILE},
        {"id": "done", "type": "end", "output": {"ordered": "${ .input.item }", "city": "${ .input.address.city }"}},
    ],
    "tests": [
        {
            "name": f"few {HOSTILE}",
            "input": {"amount": 1, "item": "tea", "password": "abc"},
            "expect": {"status": "completed"},
        },
        {
            "name": "wrong",
            "input": {"amount": 1, "item": "tea", "password": "abc"},
            "expect": {"output": {"ordered": HOSTILE}},
        },
    ],
    "triggers": [{"id": "nightly", "type": "schedule", "cron": "0 3 * * *", "input": {}, "enabled": False}],
}
PLAIN: dict[str, Any] = {
    "penstock": "v1",
    "name": "plain",
    "description": LONG,
    "nodes": [{"id": "done", "type": "end", "output": "${ .input }"}],
}


@contextmanager
def shop_keeping(folder: Path) -> Iterator[LiveServer]:
    """A server with all of it, until the block ends."""
    (folder / "penstock.yaml").write_text(json.dumps(SETTINGS), encoding="utf-8")
    (folder / SETTINGS["storage"]["backup_folder"]).mkdir()
    (folder / "said.txt").write_text(f"Finds items. {HOSTILE} {LINK}", encoding="utf-8")
    with serving(folder) as running:
        order = {**ORDER, "triggers": []}
        running.call("POST", "workflows", {"document": order})
        running.call(
            "PUT", "workflows/order", {"document": {**order, "version": "1.1.0", "output": {"type": "object"}}}
        )
        running.call("POST", "workflows", {"document": {**PLAIN, "description": LONG[:500_000]}})
        running.call("POST", "agents", {"id": "helper", "description": HOSTILE, "instructions": f"{HOSTILE} {LINK}"})
        running.call("POST", "schedules", {"workflow_id": "plain", "cron": "0 3 * * *", "schedule_id": "nightly"})
        hook = {"url": "https://example.com/events", "description": HOSTILE}
        made = running.call("POST", "webhooks", hook)["webhook"]
        running.call("POST", f"webhooks/{made['id']}/test")
        running.call("POST", "keys", {"name": HOSTILE, "kind": "agent", "scopes": ["workflow:run"]})
        running.call("POST", "upstreams/shop/refresh", {})
        yield running
