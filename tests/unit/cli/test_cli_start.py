"""What a server must not import before it answers: these are imported lazily, so that it starts fast."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import SECONDS_MAX

# Libraries that take long to import, and packages of ours that few calls need.
IMPORTED_LAZILY = (
    "a2a",
    "cedarpy",
    "cryptography",
    "h11",
    "httpcore2",
    "httpx2",
    "jinja2",
    "joserfc",
    "mcp",
    "prometheus_client",
    "pydantic",
    "pydantic_ai",
    "yaml",
    "penstock.rest.prometheus",
    "penstock.rest.openapi.document",
    "penstock.app.executors.models",
    "penstock.cli.documents.reading",
    "penstock.cli.terminal.findings",
    "penstock.definitions.build.workflow",
    "penstock.definitions.diff.compare",
    "penstock.drawing.mermaid",
    "penstock.drawing.layout",
    "penstock.mcp_surface.answer_page.page",
    "penstock.definitions.outline.document",
    "penstock.definitions.editor_schema",
    "penstock.definitions.nodes",
    "penstock.definitions.source.yaml_reader",
    "penstock.definitions.validate",
    "penstock.runtime.simulation.cases",
    "penstock.runtime.control_plane.hosts",
    "penstock.runtime.control_plane.functions",
    "penstock.runtime.executors.agents.a2a",
    "penstock.runtime.executors.agents.executor",
    "penstock.runtime.executors.http.executor",
    "penstock.runtime.executors.llm.executor",
    "penstock.runtime.executors.mcp.executor",
    "penstock.runtime.executors.step.processes",
    "penstock.runtime.executors.http.webhook_sender",
    "penstock.runtime.host.memory",
    "penstock.runtime.simulation.dry_run",
)


@pytest.fixture(scope="module")
def imported() -> frozenset[str]:
    """The modules that are there once `penstock serve` is imported."""
    program = "import json, sys, penstock.cli.server.serve; print(json.dumps(sorted(sys.modules)))"
    finished = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=SECONDS_MAX
    )
    return frozenset(json.loads(finished.stdout))


@pytest.mark.parametrize("module", IMPORTED_LAZILY)
def test_a_server_starts_without(module: str, imported: frozenset[str]) -> None:
    advice = f"penstock.cli.server.serve imports {module}: import it where it is used, with penstock.base.lazy_import"
    assert module not in imported, advice


def test_a_server_starts_with_what_it_needs(imported: frozenset[str]) -> None:
    assert {
        "uvicorn",
        "starlette.routing",
        "penstock.app.serving.server",
        "penstock.app.drivers",
    } <= imported


def test_a_pipe_gives_its_first_answers_without_the_sdk(tmp_path: Path) -> None:
    program = (
        "import atexit, json, sys\n"
        "atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))\n"
        "sys.argv = ['penstock', 'mcp']\n"
        "from penstock.cli.main import main\n"
        "main()\n"
    )
    client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    messages = (
        {"id": 1, "method": "initialize", "params": client},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list"},
    )
    finished = subprocess.run(
        [sys.executable, "-c", program],
        input="".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages),
        capture_output=True,
        text=True,
        check=True,
        timeout=SECONDS_MAX,
        cwd=tmp_path,
    )
    assert [json.loads(line)["id"] for line in finished.stdout.splitlines()] == [1, 2]
    loaded = json.loads(finished.stderr.splitlines()[-1])
    heavy = ("cryptography", "httpx2", "jinja2", "mcp", "mcp_types", "prometheus_client", "pydantic", "uvicorn")
    assert [name for name in heavy if name in loaded] == []


def test_a_command_without_options_converts_nothing() -> None:
    program = (
        "import sys\nfrom penstock.cli.main import main\nsys.argv = ['penstock', 'serve']\n"
        "try:\n    main()\nexcept SystemExit as end:\n    print(end.code, 'pydantic' in sys.modules)"
    )
    # It ends when it reads its settings, before it opens anything.
    environment = {**os.environ, "PENSTOCK_SERVER_PORT": "none"}
    command = [sys.executable, "-c", program]
    finished = subprocess.run(command, capture_output=True, text=True, check=True, timeout=SECONDS_MAX, env=environment)
    assert finished.stdout == "2 False\n", finished.stderr
