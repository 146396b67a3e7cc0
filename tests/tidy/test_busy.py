"""What keeps the cores busy ends by itself, and what failed meanwhile is counted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.busy import ROOT, burning, failures
from tests.waiting import wait_until


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_processes_that_compute_are_gone_when_the_block_ends() -> None:
    with burning(2) as pids:
        assert all(_is_there(pid) for pid in pids)
    assert not any(_is_there(pid) for pid in pids)


def test_processes_that_compute_end_with_the_one_that_started_them() -> None:
    # It ends as if it were killed: nothing is tidied up.
    program = (
        "import os; from tests.busy import burning\nwith burning(1) as pids: print(*pids, flush=True); os._exit(0)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    pid = int(done.stdout)
    wait_until(lambda: not _is_there(pid) or Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z")


def test_what_failed_is_read_from_the_summary() -> None:
    output = (
        "FAILED tests/unit/test_a.py::test_one - AssertionError: FAILED is a word\n"
        "ERROR tests/live/test_b.py::test_two\n"
        "FAILED tests/unit/test_a.py::test_one - again\n"
        "= 2 failed, 7 passed =\n"
    )
    assert failures(output) == ["tests/unit/test_a.py::test_one", "tests/live/test_b.py::test_two"]
