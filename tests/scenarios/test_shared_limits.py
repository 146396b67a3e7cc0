"""Two server processes on one file keep limits together: quotas and starts exactly, rates within their bound."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from penstock.base import limits
from tests.live.rest.servers import LiveServer, serving
from tests.waiting import wait_until

PROCESSES = 2
# A burst of twenty lists, and then two a second.
SETTINGS = "limits: {capabilities: {workflow.list: {per_minute: 120}}}"
HELLO: dict[str, Any] = {
    "penstock": "v1",
    "name": "hello",
    "nodes": [{"id": "done", "type": "end", "output": "hello"}],
}
HOURLY = {**HELLO, "name": "hourly", "governance": {"rate": {"limit": 3, "per": "1h"}}}
WAITS = {**HELLO, "name": "waits", "nodes": [{"id": "go", "type": "wait", "signal": "go"}, *HELLO["nodes"]]}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[LiveServer]]:
    """Two processes on one file; they know each other's keys."""
    folder = tmp_path_factory.mktemp("shared")
    for document in (HELLO, HOURLY, WAITS):
        (folder / f"{document['name']}.json").write_text(json.dumps(document), encoding="utf-8")
    (folder / "penstock.yaml").write_text(SETTINGS, encoding="utf-8")
    with ExitStack() as stack:
        found = [stack.enter_context(serving(folder, "--workflows", "*.json")) for _ in range(PROCESSES)]
        assert found[0].port != found[1].port
        for server in found[1:]:
            server.key = found[0].key
        yield found


def statuses(servers: list[LiveServer], requests: int, method: str, path: str, key: str) -> list[int]:
    """The statuses of as many requests to each server, as fast as they can be made."""
    body: Any = {} if method == "POST" else None

    def sent(number: int) -> int:
        return servers[number % len(servers)].request(method, path, body, key=key).status

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(sent, range(requests * len(servers))))


def new_key(server: LiveServer, name: str) -> tuple[str, str]:
    made = server.call("POST", "keys", {"name": name, "scopes": ["*"]})
    return made["secret"], f"key:{made['key']['id']}"


def test_a_daily_quota_is_kept_exactly(servers: list[LiveServer]) -> None:
    key, subject = new_key(servers[0], "daily")
    servers[0].call("PUT", f"quotas/{subject}", {"runs_per_day": 7})
    wait_until(lambda: servers[1].call("GET", f"quotas/{subject}")["limits"]["runs_per_day"] == 7)
    found = Counter(statuses(servers, 12, "POST", "workflows/hello/executions", key))
    assert found == {202: 7, 429: 17}
    assert servers[1].call("GET", f"quotas/{subject}")["used"]["runs_today"] == 7


def test_runs_at_once_are_kept_exactly(servers: list[LiveServer]) -> None:
    key, subject = new_key(servers[0], "at once")
    servers[0].call("PUT", f"quotas/{subject}", {"runs_at_once": 4})
    wait_until(lambda: servers[1].call("GET", f"quotas/{subject}")["limits"]["runs_at_once"] == 4)
    found = Counter(statuses(servers, 8, "POST", "workflows/waits/executions", key))
    assert found == {202: 4, 429: 12}


def test_the_rate_of_a_workflow_is_kept_exactly(servers: list[LiveServer]) -> None:
    key, _ = new_key(servers[0], "hourly")
    found = Counter(statuses(servers, 8, "POST", "workflows/hourly/executions", key))
    assert found[202] <= 3
    assert found[202] + found[429] == 16
    assert statuses(servers, 1, "POST", "workflows/hourly/executions", key) == [429, 429] or found[202] < 3


def test_a_rate_is_kept_within_its_bound_and_what_was_too_much_is_owed(servers: list[LiveServer]) -> None:
    key, _ = new_key(servers[0], "reader")
    burst = 120 * limits.RATE_BURST_SECONDS / 60
    passed = statuses(servers, 40, "GET", "workflows", key).count(200)
    assert burst <= passed <= PROCESSES * burst + 2 * 30  # what flows in while eighty requests are made

    # Once both have told what they took, neither lets anything through before the debt has flowed in.
    wait_until(lambda: statuses(servers, 1, "GET", "workflows", key) == [429, 429])
    waits = [int(server.request("GET", "workflows", key=key).headers["retry-after"]) for server in servers]
    assert max(waits) >= 1
