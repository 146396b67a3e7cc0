"""The official conformance suite against a server of its own, and what came of it.

    python -m tests.conformance.mcp_suite.suite                    everything, with the fast path and without it
    python -m tests.conformance.mcp_suite.suite --fast-path on     one of the two

Each revision's frozen set of requirements runs at that revision's wire; the set of 2026-07-28 brings the scenarios of
the tasks extension with it. Nothing is expected to fail. Progress goes to standard error; the last line of standard
output is one JSON object, and the exit code is 0 if everything that is required passed.

Some scenarios wait for half a second and no longer, which a busy machine can miss: what failed, if it is little,
runs again by itself, twice at most, and the result names it under `repeated`.

Above it: `scripts/conformance-mcp`, the tests. Below it: `server`, `node`.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

from tests.conformance.mcp_suite.node import ROOT, node_programs

__all__ = ["REVISIONS", "Outcome", "Scenario", "SuiteRun", "main", "run_suite", "scenario_of"]

REVISIONS = ("2025-11-25", "2026-07-28")
_PACKAGE = "@modelcontextprotocol/conformance"
_SCENARIO_MS_MAX = 60_000
_SUITE_SECONDS_MAX = 600
_SERVER_SECONDS_MAX = 60
# A server that serves without a fault writes nothing.
_LOG_CHARACTERS_SHOWN = 4_000
_FAULT = "Traceback (most recent call last)"
# When more than these fail, it is not the machine.
_REPEATED_MAX = 4
_REPEATS_MAX = 2
_REASON_CHARACTERS_MAX = 500
_STARTED = re.compile(r"=== Running scenario: (\S+) ===")
_FOLDER = re.compile(r"server-(?P<name>.+)-\d{4}-\d{2}-\d{2}T[\d-]+Z")

Result = Literal["passed", "failed", "skipped", "untested"]


@dataclass(frozen=True, slots=True)
class Scenario:
    """What came of one scenario."""

    name: str
    result: Result
    failures: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(slots=True)
class Outcome:
    """What came of the requirements of one revision."""

    revision: str
    required: tuple[str, ...]
    scenarios: dict[str, Scenario] = field(default_factory=dict)
    repeated: list[str] = field(default_factory=list)

    @property
    def passed(self) -> tuple[str, ...]:
        """What is required and passed."""
        return tuple(name for name in self.required if self._result(name) == "passed")

    @property
    def tasks(self) -> dict[str, Result]:
        """The scenarios of the tasks extension."""
        return {name: item.result for name, item in self.scenarios.items() if name.startswith("tasks-")}

    @property
    def others(self) -> dict[str, Result]:
        """What runs but is neither required nor about tasks."""
        known = {*self.required, *self.tasks}
        return {name: item.result for name, item in self.scenarios.items() if name not in known}

    @property
    def needed(self) -> tuple[str, ...]:
        """What must pass here: what is required, and the tasks that the suite does not skip by itself."""
        return (*self.required, *(name for name, result in self.tasks.items() if result != "skipped"))

    @property
    def others_failed(self) -> dict[str, tuple[str, ...]]:
        """What need not pass by the requirements and failed, with the reasons."""
        return {name: self.scenarios[name].failures for name, result in self.others.items() if result == "failed"}

    @property
    def failed(self) -> dict[str, tuple[str, ...]]:
        """What must pass and did not, with the reasons."""
        found = {name: self.scenarios.get(name) for name in self.needed if self._result(name) != "passed"}
        return {name: (item.failures if item else ()) or ("it showed nothing",) for name, item in found.items()}

    def _result(self, name: str) -> Result | None:
        item = self.scenarios.get(name)
        return item.result if item else None


@dataclass(slots=True)
class _Server:
    url: str = ""
    log: str = ""


@contextmanager
def _serving(server: _Server, *, fast_path: bool) -> Iterator[None]:
    """A server with the pack until the block ends; then its log is there."""
    command = [sys.executable, "-m", "tests.conformance.mcp_suite.server", "--fast-path", "on" if fast_path else "off"]
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            told = process.stdout.readline()
            if not told:
                raise RuntimeError("the server ended before it listened; what it wrote is above")
            # By name: the suite's check of foreign host names is for servers that are reached so.
            server.url = str(json.loads(told)["address"]).replace("127.0.0.1", "localhost")
            yield
        finally:
            process.terminate()
            try:
                process.wait(_SERVER_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
            log.seek(0)
            server.log = log.read()
            _say(server.log[-_LOG_CHARACTERS_SHOWN:])


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _perform(url: str, label: str, *options: str) -> dict[str, Scenario]:
    """Run the suite and read what it wrote, scenario by scenario."""
    program = f"{_PACKAGE}/dist/index.js"
    with tempfile.TemporaryDirectory(prefix="penstock-conformance-") as folder:
        command = node_programs().run(
            program, "server", "--url", f"{url}/mcp", *options, "-o", folder, "--timeout", str(_SCENARIO_MS_MAX)
        )
        with subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as suite:
            assert suite.stdout is not None
            said: list[str] = []
            for line in suite.stdout:
                said.append(line)
                if found := _STARTED.search(line):
                    _say(f"{label}: {found[1]}")
            suite.wait(_SUITE_SECONDS_MAX)
        results = dict(_read(Path(folder)))
        explained = any(item.result == "failed" for item in results.values())
        if not results or (suite.returncode and not explained):
            _say("".join(said))
            raise RuntimeError(f"{label}: the suite ended with {suite.returncode} and no result says why; see above")
        return results


def _read(folder: Path) -> Iterable[tuple[str, Scenario]]:
    for path in sorted(folder.iterdir()):
        found, checks = _FOLDER.fullmatch(path.name), path / "checks.json"
        if found and checks.is_file():
            yield found["name"], scenario_of(found["name"], json.loads(checks.read_text(encoding="utf-8")))


def scenario_of(name: str, checks: list[dict[str, Any]]) -> Scenario:
    """What came of a scenario, by its checks: one that shows nothing has not passed."""
    failures = _told(checks, "FAILURE")
    found = {check["status"] for check in checks}
    result: Result = "untested"
    if failures:
        result = "failed"
    elif "SUCCESS" in found:
        result = "passed"
    elif "SKIPPED" in found:
        result = "skipped"
    return Scenario(name, result, failures, _told(checks, "WARNING"))


def _told(checks: list[dict[str, Any]], status: str) -> tuple[str, ...]:
    told = (f"{check['id']}: {check.get('errorMessage')}" for check in checks if check["status"] == status)
    return tuple(text[:_REASON_CHARACTERS_MAX] for text in told)


def _required(revision: str) -> tuple[str, ...]:
    path = node_programs().modules / _PACKAGE / "requirements" / f"{revision}.yaml"
    return tuple(yaml.safe_load(path.read_text(encoding="utf-8"))["server"])


def _revision(url: str, revision: str, label: str) -> Outcome:
    outcome = Outcome(revision, _required(revision))
    outcome.scenarios = _perform(url, label, "--requirements", revision)
    for _ in range(_REPEATS_MAX):
        failed = outcome.failed
        for name in failed if len(failed) <= _REPEATED_MAX else ():
            _say(f"{label}: {name} failed, and runs once more: {'; '.join(failed[name])}")
            outcome.repeated.append(name)
            again = _perform(url, label, "--scenario", name, "--spec-version", revision, "--force")
            outcome.scenarios.update(again)
    return outcome


@dataclass(frozen=True, slots=True)
class SuiteRun:
    """What came of both revisions against one server, and how often that server was at fault by its own account."""

    outcomes: dict[str, Outcome]
    server_faults: int

    @property
    def ok(self) -> bool:
        """Whether everything passed that must."""
        return not any(outcome.failed for outcome in self.outcomes.values())


def run_suite(*, fast_path: bool) -> SuiteRun:
    """Both revisions at the same time against one server."""
    node_programs()
    server, path = _Server(), "on" if fast_path else "off"
    with _serving(server, fast_path=fast_path), ThreadPoolExecutor(len(REVISIONS)) as pool:
        running = {
            revision: pool.submit(_revision, server.url, revision, f"{revision}, fast path {path}")
            for revision in REVISIONS
        }
        outcomes = {revision: future.result() for revision, future in running.items()}
    return SuiteRun(outcomes, server.log.count(_FAULT))


def _figures(run: SuiteRun) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    outcomes = run.outcomes
    for revision, outcome in outcomes.items():
        figures[revision] = {"required": len(outcome.required), "passed": len(outcome.passed)}
    figures["tasks"] = {name: result for outcome in outcomes.values() for name, result in outcome.tasks.items()}
    figures["others"] = {
        f"{revision} {name}": result
        for revision, outcome in outcomes.items()
        for name, result in outcome.others.items()
    }
    figures["failed"] = {
        f"{revision} {name}": list(told)
        for revision, outcome in outcomes.items()
        for name, told in outcome.failed.items()
    }
    figures["warnings"] = {
        f"{revision} {item.name}": list(item.warnings)
        for revision, outcome in outcomes.items()
        for item in outcome.scenarios.values()
        if item.warnings
    }
    figures["server_faults"] = run.server_faults
    figures["repeated"] = [f"{revision} {name}" for revision, outcome in outcomes.items() for name in outcome.repeated]
    return figures


def _version() -> str:
    told = json.loads((node_programs().modules / _PACKAGE / "package.json").read_text(encoding="utf-8"))
    return str(told["version"])


def _worst(figures: list[dict[str, Any]]) -> dict[str, Any]:
    """What holds whichever way it is served: of each figure the worse."""
    told: dict[str, Any] = {
        revision: min((one[revision] for one in figures), key=lambda found: found["passed"] - found["required"])
        for revision in REVISIONS
    }
    scenarios = sorted({name for one in figures for name in one["tasks"]})
    results = {name: {one["tasks"].get(name, "missing") for one in figures} for name in scenarios}
    told["tasks"] = {name: next(iter(found)) if len(found) == 1 else "differs" for name, found in results.items()}
    return told


def main() -> int:
    """Run it, and print the figures."""
    parser = argparse.ArgumentParser(prog="scripts/conformance-mcp", description=__doc__.partition("\n")[0])
    parser.add_argument("--fast-path", choices=("on", "off", "both"), default="both", help="which way to serve")
    given = parser.parse_args()
    ways = ("on", "off") if given.fast_path == "both" else (given.fast_path,)
    runs = {way: run_suite(fast_path=way == "on") for way in ways}
    ok = all(run.ok for run in runs.values())
    told: dict[str, Any] = {"suite": _version(), "expected_failures": []}
    figures = {way: _figures(run) for way, run in runs.items()}
    print(json.dumps({**told, **_worst(list(figures.values())), "fast_path": figures, "ok": ok}))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
