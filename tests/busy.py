"""Run the whole suite several times while other processes keep every core busy.

    python -m tests.busy [--runs 3] [--burners 2] [ARGUMENTS FOR PYTEST]

Each core gets a process that only computes. That process ends when its parent does, however the parent ends: it
computes in short pieces, and checks between them whether its pipe is still open.

Above it: `scripts/busy`. Below it: pytest.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

__all__ = ["burning", "failures", "main"]

ROOT = Path(__file__).parents[1]

# Nothing is ever written to the pipe. It becomes readable when the other end is closed, and then the process ends.
_BURN = """
import select, sys
print("begun", flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:
    for number in range(1_000_000):
        pass
"""
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?)(?: - .*)?$", re.MULTILINE)


@contextmanager
def burning(count: int) -> Iterator[list[int]]:
    """Run `count` processes that compute until the block ends; yields their ids."""
    command = [sys.executable, "-I", "-S", "-c", _BURN]
    started = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(count)]
    try:
        for process in started:
            assert process.stdout is not None
            process.stdout.readline()
        yield [process.pid for process in started]
    finally:
        for process in started:
            process.kill()
            process.communicate()


def failures(output: str) -> list[str]:
    """The tests that pytest names in its summary as failed, each once."""
    return list(dict.fromkeys(_FAILED.findall(output)))


def _run(arguments: Sequence[str]) -> tuple[int, str]:
    """Run the tests, pass on their output as it comes, and return it."""
    cores = len(os.sched_getaffinity(0))
    command = [sys.executable, "-m", "pytest", "-n", str(cores + 1), "--dist", "worksteal", *arguments]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = []
    assert process.stdout is not None
    for line in process.stdout:
        print(line, end="", flush=True)
        lines.append(line)
    return process.wait(), "".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Run the suite as often as asked; return 0 if every run passed."""
    parser = argparse.ArgumentParser(prog="scripts/busy", description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=3, help="how often the suite is run")
    parser.add_argument("--burners", type=int, default=len(os.sched_getaffinity(0)), help="processes that compute")
    given, for_pytest = parser.parse_known_args(arguments)
    passed, failed, seconds = 0, Counter[str](), []
    with burning(given.burners):
        for number in range(1, given.runs + 1):
            began = time.monotonic()
            code, output = _run(for_pytest)
            seconds.append(round(time.monotonic() - began))
            passed += code == 0
            failed.update(failures(output))
            print(f"run {number} of {given.runs}: exit code {code} after {seconds[-1]} s", flush=True)
    result = {
        "runs": given.runs,
        "passed": passed,
        "failed": given.runs - passed,
        "failing_tests": dict(failed.most_common()),
        "burners": given.burners,
        "seconds": seconds,
        "ok": passed == given.runs,
    }
    print(json.dumps(result))
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
