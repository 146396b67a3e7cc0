"""The published conformance vectors, when they lie beside the project, through the real harness process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VECTORS = ROOT.parent / "shared" / "vectors"
DRIVER = VECTORS / "run_vectors.py"

pytestmark = pytest.mark.skipif(not DRIVER.exists(), reason="the published vectors are not beside the project")


def drive(*harness: str) -> dict[str, object]:
    """Run the driver against a harness command; its report."""
    command = [sys.executable, str(DRIVER), "--repo", str(VECTORS / "workflows"), "--", *harness]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    report: dict[str, object] = json.loads(done.stdout)
    assert (done.returncode == 0) == (not report["failed"]), done.stderr
    return report


@pytest.mark.parametrize("options", [(), ("--sqlite",)], ids=["memory", "sqlite"])
def test_every_given_vector_passes(options: tuple[str, ...]) -> None:
    report = drive(sys.executable, "-m", "penstock.app.harness", *options)
    assert report["failed"] == []
    passed = report["passed"]
    assert isinstance(passed, dict)
    assert set(passed) == {"schema", "signing", "replay", "parity"}


def test_a_harness_that_drops_given_history_is_caught(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text(
        "import asyncio, sys\n"
        "from penstock.app import harness_kernel, harness\n"
        "harness_kernel.Kernel.append = lambda self, run_id, rows: len(rows)\n"
        "asyncio.run(harness.serve(sys.stdin, sys.stdout, sqlite=False))\n"
    )
    report = drive(sys.executable, str(broken))
    failed = report["failed"]
    assert isinstance(failed, list)
    assert any(name.startswith("replay.") for name in failed)
