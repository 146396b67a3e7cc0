"""Real processes of the command line on a real file, and the events that tests wait for."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.waiting import SECONDS_MAX
from tests.zygote import piped_command, run_command

STEPS = Path(__file__).with_name("steps.py")

GREET = """\
penstock: v1
name: greet
version: 1.2.0
input: {type: object, required: [name], properties: {name: {type: string}}}
nodes:
  - {id: hello, type: step, handler: "steps:greet", with: {name: "${ .input.name }"}}
  - {id: done, type: end, output: {said: "${ .hello.text }"}}
"""
APPROVE = """\
penstock: v1
name: approve
nodes:
  - id: ask
    type: interrupt
    message: "Greet ${ .input.name }?"
    answer:
      type: object
      required: [approve]
      properties: {approve: {type: boolean, title: Approve it}, times: {type: integer, minimum: 1}}
    next: {when: .ask.approve, then: hello, else: refused}
  - {id: hello, type: step, handler: "steps:greet", with: {name: "${ .input.name }"}, effects: at_most_once, next: done}
  - {id: refused, type: end, output: {said: nothing}}
  - {id: done, type: end, output: {said: "${ .hello.text }"}}
"""
GATED = """\
penstock: v1
name: gated
nodes:
  - {id: first, type: step, handler: "steps:greet", with: {name: you}}
  - {id: work, type: step, handler: "steps:wait_for_gate", with: {gate: "${ .input.gate }"}}
  - {id: done, type: end, output: {said: "${ .work.said }"}}
"""
REFUSED = """\
penstock: v1
name: refused
nodes:
  - {id: first, type: step, handler: "steps:greet", with: {name: you}}
  - {id: check, type: step, handler: "steps:refuse", with: {marker: "${ .input.marker }"}}
  - {id: done, type: end, output: {marker: "${ .check.marker }"}}
"""
SIGNALLED = """\
penstock: v1
name: signalled
nodes:
  - {id: go, type: wait, signal: go_ahead}
  - {id: done, type: end, output: {got: "${ .go }"}}
"""


class _Piped(subprocess.Popen[str]):
    """Stands for a fork, see `tests/zygote.py`; when it is dead, so is the fork."""

    def kill(self) -> None:
        """Kill the fork, with which this process ends."""
        self.send_signal(signal.SIGUSR1)


@dataclass(frozen=True)
class Shop:
    """A folder with a database and workflows, and the commands that are run in it."""

    folder: Path
    variables: Mapping[str, str] = field(default_factory=dict)

    def write(self, name: str, text: str) -> str:
        (self.folder / name).write_text(text, encoding="utf-8")
        return name

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "penstock", *arguments]

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PENSTOCK", "PYTHON"))}
        return {
            **kept,
            "NO_COLOR": "1",
            "COLUMNS": "160",
            "PYTHONUNBUFFERED": "1",
            **self.variables,
        }

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, without a terminal."""
        return run_command(arguments, folder=self.folder, environment=self.environment(), timeout_seconds=SECONDS_MAX)

    def json(self, *arguments: str, code: int = 0) -> Any:
        """What a command with --json prints."""
        finished = self.run(*arguments, "--json")
        assert finished.returncode == code, finished.stdout + finished.stderr
        return json.loads(finished.stdout)

    @contextmanager
    def start(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """A command that goes on beside the test; it is killed at the end if it has not ended."""
        process = _Piped(
            piped_command(*arguments),
            cwd=self.folder,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def gate(self) -> "Gate":
        path = self.folder / "gate"
        os.mkfifo(path)
        return Gate(path)


@dataclass(frozen=True)
class Gate:
    """A named pipe that a step waits at."""

    path: Path

    @contextmanager
    def reached(self) -> Iterator[None]:
        """Inside, a step stands at the gate; it goes on afterwards."""
        opened: list[int] = []

        def wait() -> None:
            opened.append(os.open(self.path, os.O_WRONLY))

        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        thread.join(SECONDS_MAX)
        assert opened, "no step came to the gate"
        try:
            yield
        finally:
            os.close(opened[0])

    def ledger(self) -> list[str]:
        """The keys and attempts of the steps that went through."""
        path = self.path.with_suffix(".ledger")
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def read_until(process: subprocess.Popen[str], text: str) -> str:
    """What a process prints up to a line that contains a text; one that is silent for too long is killed."""
    assert process.stdout is not None
    watchdog = threading.Timer(SECONDS_MAX, process.kill)
    watchdog.start()
    read = ""
    try:
        for line in process.stdout:
            read += line
            if text in line:
                return read
    finally:
        watchdog.cancel()
    raise AssertionError(f"the process ended without printing {text!r}:\n{read}")
