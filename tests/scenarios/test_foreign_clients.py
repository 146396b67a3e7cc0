"""Clients that others wrote, of several ages: each call of theirs is answered in a way that reaches their caller.

These are the cheap ones; `scripts/clients` runs all of them.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.mcp_suite.node import node_programs
from tests.live.foreign_clients.judging import CHECKS, judged
from tests.live.mcp.workflows import ALL
from tests.live.rest.servers import LiveServer, serving
from tests.waiting import SECONDS_MAX
from tests.zygote import piped_command

# How a server takes it that a client hangs up is observed from outside of the client, by `scripts/clients`.
OBSERVED = [name for name in CHECKS if name not in ("hang_up", "answered")]
DRIVER = Path(__file__).parents[1] / "live" / "foreign_clients" / "drivers" / "typescript_v1.mjs"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server with the workflows."""
    with serving(tmp_path_factory.mktemp("foreign")) as running:
        for document in ALL:
            running.call("POST", "workflows", {"document": document})
        yield running


def observed(package: str, *where: str, key: str = "", folder: Path | None = None) -> Any:
    """What a client of the TypeScript SDK 1.x saw."""
    programs = node_programs()
    done = subprocess.run(
        [programs.command, str(DRIVER), "observe", str(programs.modules / package), *where],
        cwd=folder,
        env={**os.environ, "PENSTOCK_API_KEY": key},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("package", ["sdk-1.11", "sdk-1.20", "@modelcontextprotocol/sdk"])
def test_a_client_on_the_typescript_sdk_1_gets_every_answer(server: LiveServer, package: str) -> None:
    seen = observed(package, "http", f"{server.url}/mcp", key=server.key)
    assert judged(seen) == dict.fromkeys(OBSERVED)


def test_it_does_over_a_pipe_too(tmp_path: Path) -> None:
    for document in ALL:
        (tmp_path / f"{document['name']}.json").write_text(json.dumps(document), encoding="utf-8")
    command = piped_command("mcp", "--db", "penstock.db", "--workflows", ".")
    seen = observed("@modelcontextprotocol/sdk", "pipe", *command, folder=tmp_path)
    assert judged(seen) == dict.fromkeys(OBSERVED)
