"""What a hostile case is, and what cases share."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from tests.live.rest.servers import Answer, LiveServer

__all__ = ["Case", "at_once", "document", "waiting"]


@dataclass(frozen=True, slots=True)
class Case:
    """Something hostile, which raises AssertionError where the server does not hold."""

    name: str
    attack: Callable[[LiveServer], None]


def at_once(count: int, call: Callable[[int], Answer]) -> list[Answer]:
    """The answers to calls that are made beside each other."""
    with ThreadPoolExecutor(min(count, 32)) as threads:
        return list(threads.map(call, range(count)))


def document(name: str, **more: Any) -> dict[str, Any]:
    """A workflow that ends at once."""
    return {"penstock": "v1", "name": name, "nodes": [{"id": "done", "type": "end", "output": "${ .input }"}], **more}


def waiting(server: LiveServer, name: str = "waits") -> str:
    """The id of a run that waits for a signal."""
    nodes = [{"id": "wait", "type": "wait", "signal": "go"}, {"id": "done", "type": "end"}]
    server.request("POST", "workflows", {"document": {"penstock": "v1", "name": name, "nodes": nodes}})
    started = server.call("POST", f"workflows/{name}/executions", {"input": {"a": 1}})
    run_id: str = started["execution_id"]
    return run_id
