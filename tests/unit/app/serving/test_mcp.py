"""MCP in a server: its choices, and when its libraries are loaded."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.app.gate import local_owner, open_gate
from penstock.app.penstock import Penstock
from penstock.app.serving.mcp import McpMount, mcp_options
from penstock.app.settings.model import McpSettings, ServerSettings, Settings
from penstock.base import limits
from penstock.mcp_surface.options import McpOptions
from penstock.operations.gate.context import Request
from penstock.operations.gate.pipeline import AnsweredCall
from tests.waiting import SECONDS_MAX


def test_a_server_that_is_built_has_not_imported_the_sdk() -> None:
    program = (
        "import sys, penstock.app.serving.server; print([name for name in ('mcp', 'pydantic') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=SECONDS_MAX
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("host", "public_url", "allowed"),
    [
        ("127.0.0.1", None, {"127.0.0.1", "localhost", "::1"}),
        ("127.0.0.1", "https://flows.example/x", {"127.0.0.1", "localhost", "::1", "flows.example"}),
        ("0.0.0.0", None, None),
        ("0.0.0.0", "https://flows.example", {"127.0.0.1", "localhost", "::1", "0.0.0.0", "flows.example"}),
    ],
)
def test_the_names_that_a_server_answers_to(host: str, public_url: str | None, allowed: set[str] | None) -> None:
    options = mcp_options(Settings(server=ServerSettings(host=host, public_url=public_url)))
    assert (None if options.allowed_hosts is None else set(options.allowed_hosts)) == allowed


def test_the_size_of_a_list_is_the_operators_choice() -> None:
    settings = Settings(server=ServerSettings(mcp=McpSettings(catalogue_bytes=123)))
    assert mcp_options(settings).catalogue_bytes == 123


@pytest.mark.anyio
@pytest.mark.parametrize("is_exposed", [True, False])
async def test_what_assistants_need_is_loaded_early_if_there_is_something_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_exposed: bool
) -> None:
    monkeypatch.setattr(limits, "MCP_WARM_AFTER_SECONDS", 0.0)
    document: dict[str, Any] = {"penstock": "v1", "name": "w", "nodes": [{"id": "done", "type": "end", "output": 1}]}
    async with Penstock.open(tmp_path / "penstock.db") as penstock, open_gate(penstock) as gate:
        request = Request(
            operation="workflow.create",
            arguments={"document": {**document, "expose": {"tool": True}} if is_exposed else document},
            principal=local_owner(),
            surface="sdk",
            request_id="test",
        )
        assert isinstance(await gate.call(request), AnsweredCall)
        async with McpMount(gate, McpOptions()) as mount:
            assert mount._warming is not None
            await asyncio.wait_for(asyncio.shield(mount._warming), SECONDS_MAX)
            assert (mount._edge._backend is not None) is is_exposed
        assert mount._edge._backend is None


@pytest.mark.anyio
async def test_a_server_that_stops_at_once_loads_nothing(tmp_path: Path) -> None:
    async with Penstock.open(tmp_path / "penstock.db") as penstock, open_gate(penstock) as gate:
        async with McpMount(gate, McpOptions()) as mount:
            pass
        assert mount._warming is not None
        assert mount._warming.cancelled()
