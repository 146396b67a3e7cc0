"""The published conformance vectors, when they lie beside the project, through the real harness process."""

from __future__ import annotations

import importlib.util
import json
import os
import socketserver
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
VECTORS = ROOT.parent / "shared" / "vectors"
DRIVER = VECTORS / "run_vectors.py"
HARNESS = (sys.executable, "-m", "tests.conformance.harness")
# A harness that was changed for a test lies in another folder and must find the modules here.
VARIABLES = {**os.environ, "PYTHONPATH": str(ROOT)}
# The driver's own server looks twice a second whether it shall end, and every vector would wait for that.
SOON = (
    "import runpy, socketserver, sys; socketserver.BaseServer.serve_forever.__defaults__ = (0.01,); "
    "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
)

pytestmark = pytest.mark.skipif(not DRIVER.exists(), reason="the published vectors are not beside the project")


def drive(*harness: str, only: str = "") -> dict[str, Any]:
    """Run the driver against a harness command; its report."""
    options = ["--repo", str(VECTORS / "workflows"), "--only", only]
    command = [sys.executable, "-c", SOON, str(DRIVER), *options, "--", *harness]
    done = subprocess.run(command, cwd=ROOT, env=VARIABLES, capture_output=True, text=True, timeout=240, check=False)
    report: dict[str, Any] = json.loads(done.stdout)
    assert (done.returncode == 0) == (not report["failed"]), done.stderr
    return report


@pytest.mark.parametrize("options", [(), ("--sqlite", "--surfaces", "port")], ids=["memory", "sqlite"])
def test_every_given_vector_passes(options: tuple[str, ...]) -> None:
    report = drive(*HARNESS, *options)
    assert report["failed"] == []
    assert set(report["passed"]) == {"schema", "signing", "replay", "parity"}
    assert report["engine"]["surfaces"] == (["port"] if options else ["port", "rest", "sdk", "mcp"])


def test_the_parity_vectors_that_the_driver_tries_on_one_surface_pass_on_the_others_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socketserver.BaseServer.serve_forever, "__defaults__", (0.01,))  # see SOON
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    spec = importlib.util.spec_from_file_location("run_vectors", DRIVER)
    assert spec is not None
    assert spec.loader is not None
    driver: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(driver)
    harness = driver.Harness(HARNESS)
    tried = 0
    for file in sorted((VECTORS / "workflows/conformance/vectors/parity").glob("*.vector.json")):
        vector = json.loads(file.read_text(encoding="utf-8"))
        definition = json.loads((VECTORS / "workflows" / vector["definition"]).read_text(encoding="utf-8"))
        # The driver tries all of them as tools, but only in the era that a client prefers.
        others: list[dict[str, str]] = [{"surface": "mcp", "era": "legacy"}]
        if not vector["id"].startswith("parity.r2."):
            others += [{"surface": "rest"}, {"surface": "sdk"}]
        for other in others:

            def elsewhere(op: str, *, other: dict[str, str] = other, **given: Any) -> Any:
                return harness(op, **({**given, **other} if op == "open" else given))

            assert driver.parity_vector(elsewhere, vector, definition, ["port"]) is None, (vector["id"], other)
            tried += 1
    harness.close()
    harness.p.stdout.close()
    assert tried


def test_a_harness_that_drops_given_history_is_caught(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text(
        "import asyncio, sys\n"
        "from tests.conformance.harness import kernel, protocol\n"
        "kernel.Kernel.append = lambda self, run_id, rows: len(rows)\n"
        "asyncio.run(protocol.serve(sys.stdin, sys.stdout, sqlite=False))\n"
    )
    assert any(name.startswith("replay.") for name in drive(sys.executable, str(broken), only="replay.")["failed"])


def test_a_server_that_answers_otherwise_than_the_port_is_caught(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text(
        "import asyncio, sys\n"
        "from tests.conformance.harness import mcp_tools, protocol\n"
        "published = mcp_tools._called\n"
        "async def call(client, function, arguments):\n"
        "    is_error, body = await published(client, function, arguments)\n"
        "    return is_error, {**body, 'more': 1}\n"
        "mcp_tools._called = call\n"
        "asyncio.run(protocol.serve(sys.stdin, sys.stdout, sqlite=False, surfaces=('port', 'mcp')))\n"
    )
    failed = drive(sys.executable, str(broken), only="parity.r2.linear")["failed"]
    assert failed == ["parity.r2.linear_complete"]
