"""`penstock serve` with the pack, for a suite that knows no keys: every request is given the owner's.

    python -m tests.conformance.mcp_suite.server --fast-path on

It listens on a free port of this machine and writes its first line as JSON: {"address": "http://127.0.0.1:40123"}.
The pack is mounted here and nowhere else.

Above it: `suite` starts it. Below it: the server as the command line has it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from penstock.app.gate import create_owner_key, local_owner
from penstock.app.serving.server import ServerOptions
from penstock.base.json import JsonObject
from penstock.cli.server.process import Started, open_server
from penstock.cli.targets.settings import command_settings
from penstock.cli.targets.workspace import Workspace
from penstock.operations.gate.context import Request
from penstock.operations.gate.pipeline import Gate, RefusedCall
from tests.conformance.mcp_suite import steps

__all__ = ["WORKFLOWS", "main"]

WORKFLOWS = Path(__file__).parent / "workflows"
_CALLS_PER_MINUTE = 100_000


def _flags(*, fast_path: bool) -> JsonObject:
    """Everything that the suite calls is listed, and it may call as often as it likes."""
    return {
        "server.port": 0,
        "server.mcp.toolset": "workflows",
        "server.mcp.fast_path": fast_path,
        # Long enough for all calls but the one that is there to be left and taken up again.
        "server.mcp.sse_close_after": "1s",
        "limits.read_per_minute": _CALLS_PER_MINUTE,
        "limits.write_per_minute": _CALLS_PER_MINUTE,
    }


class Offers:
    """A tool and a prompt that come and go."""

    def __init__(self) -> None:
        self.gate: Gate | None = None
        self._present: set[str] = set()

    async def change(self, kind: str) -> str:
        """Add one, or take it away if it is there."""
        name = f"changing_{kind}"
        if kind in self._present:
            self._present.discard(kind)
            await self._call("workflow.delete", {"workflow_id": name})
            return f"The {kind} {name} is gone."
        self._present.add(kind)
        ended: JsonObject = {"id": "done", "type": "end"}
        document: JsonObject = {"penstock": "v1", "name": name, "expose": {kind: True}, "nodes": [ended]}
        await self._call("workflow.create", {"document": document})
        return f"The {kind} {name} is there."

    async def _call(self, operation: str, arguments: JsonObject) -> None:
        assert self.gate is not None
        asked = Request(
            operation=operation, arguments=arguments, principal=local_owner(), surface="sdk", request_id="pack"
        )
        outcome = await self.gate.call(asked)
        if isinstance(outcome, RefusedCall):
            raise outcome.error


def _with_key(app: Any, key: str) -> ASGIApp:
    shown = (b"authorization", f"Bearer {key}".encode())

    async def called(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "headers": [*scope["headers"], shown]}, receive, send)

    return called


async def _serve(folder: Path, *, fast_path: bool, announce: Callable[[str], None]) -> None:
    began = time.perf_counter()
    settings = command_settings(None, _flags(fast_path=fast_path), as_json=True).settings
    workspace = Workspace(database=folder / "penstock.db", settings=settings)
    chosen, offers = ServerOptions.of(settings), Offers()
    own: list[Callable[..., Any]] = [
        steps.picture,
        steps.sound,
        steps.fail,
        steps.logging_work,
        steps.progressing_work,
    ]
    opening = open_server(
        workspace,
        replace(chosen, mcp=replace(chosen.mcp, protocol_faults=frozenset({"PROTOCOL_ERROR"}))),
        observe=lambda committed: None,
        steps=[*own, *steps.changing_steps(offers.change)],
    )
    async with opening as server:
        offers.gate = server.gate
        key = await create_owner_key(server.gate)
        assert key is not None
        for path in sorted(WORKFLOWS.glob("*.yaml")):
            await server.penstock.register(path)
        server.http.config.app = _with_key(server.http.config.app, key)

        def told(started: Started) -> None:
            announce(started.address)

        await server.run(began, told)


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance.mcp_suite.server", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--fast-path", choices=("on", "off"), default="on", help="answer hot requests without the SDK")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-mcp-pack-") as folder:

        def announce(address: str) -> None:
            print(json.dumps({"address": address}), flush=True)

        asyncio.run(_serve(Path(folder), fast_path=given.fast_path == "on", announce=announce))


if __name__ == "__main__":
    main()
