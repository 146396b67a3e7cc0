"""The official suite's `auth` scenarios, with our client of other MCP servers, and what came of them.

    python -m tests.conformance.mcp_suite.oauth_suite                          everything, at both revisions
    python -m tests.conformance.mcp_suite.oauth_suite --only auth/basic-cimd   some of it

What a revision requires runs at that revision's wire. The client credentials run too: they belong to an extension, and
are not scored by the suite, but we have them. What we do not have (DPoP, enterprise-managed authorization, workload
identity) is named under `not_offered` and does not run. Progress goes to standard error; the last line of standard
output is one JSON object, and the exit code is 0 if everything passed without a warning.

Above it: `scripts/conformance-mcp --client-auth`, the tests. Below it: `oauth_client`, `node`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import yaml

from tests.conformance.mcp_suite.node import ROOT, node_programs
from tests.conformance.mcp_suite.suite import REVISIONS, Scenario, scenario_of

__all__ = ["EXTENSIONS", "main", "required_scenarios", "run_scenario"]

EXTENSIONS: Final = ("auth/client-credentials-basic", "auth/client-credentials-jwt")
_PACKAGE: Final = "@modelcontextprotocol/conformance"
_AT_ONCE: Final = 2
_SCENARIO_MS_MAX: Final = 120_000
_SECONDS_MAX: Final = 300


def _requirements(revision: str) -> dict[str, Any]:
    path = node_programs().modules / _PACKAGE / "requirements" / f"{revision}.yaml"
    found: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


def required_scenarios(revision: str) -> tuple[str, ...]:
    """The scenarios about authorization that a revision requires of clients."""
    return tuple(name for name in _requirements(revision)["client"] if name.startswith("auth/"))


def _not_offered(revision: str) -> list[str]:
    others = [str(item["scenario"]) for item in _requirements(revision)["not_scored"] if item["leg"] == "client"]
    return [name for name in others if name.startswith("auth/") and name not in EXTENSIONS]


def run_scenario(name: str, revision: str) -> Scenario:
    """Run one scenario with our client."""
    client = f"{sys.executable} -m tests.conformance.mcp_suite.oauth_client"
    with tempfile.TemporaryDirectory(prefix="penstock-conformance-") as folder:
        command = node_programs().run(
            f"{_PACKAGE}/dist/index.js",
            "client",
            *("--command", client, "--scenario", name, "--spec-version", revision, "--force"),
            *("--timeout", str(_SCENARIO_MS_MAX), "-o", folder),
        )
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=_SECONDS_MAX, check=False)
        found = sorted(Path(folder).rglob("checks.json"))
        if len(found) != 1:
            raise RuntimeError(f"{name}: the suite ended with {done.returncode} and no result: {done.stdout[-2000:]}")
        return scenario_of(name, json.loads(found[0].read_text(encoding="utf-8")))


def _run(revision: str, names: Sequence[str]) -> dict[str, Scenario]:
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        results = {}
        for found in pool.map(lambda name: run_scenario(name, revision), names):
            results[found.name] = found
            print(f"{revision}: {found.name} {found.result}", file=sys.stderr, flush=True)
        return results


def main() -> int:
    """Run it, and print the figures."""
    parser = argparse.ArgumentParser(prog="scripts/conformance-mcp --client-auth")
    parser.add_argument("--only", action="append", default=[], help="a scenario; all of them unless given")
    only = parser.parse_args().only
    told: dict[str, Any] = {}
    ok = True
    for revision in REVISIONS:
        required = [name for name in required_scenarios(revision) if not only or name in only]
        extensions = [name for name in EXTENSIONS if not only or name in only]
        results = _run(revision, [*required, *extensions])
        passed = {name for name, found in results.items() if found.result == "passed"}
        failed = {name: list(found.failures) for name, found in results.items() if found.result != "passed"}
        warned = {name: list(found.warnings) for name, found in results.items() if found.warnings}
        told[revision] = {
            "required": len(required),
            "passed": len(passed & set(required)),
            "extensions": {name: results[name].result for name in extensions},
            "failed": failed,
            "warnings": warned,
            "not_offered": _not_offered(revision),
        }
        ok = ok and not failed and not warned and bool(results)
    print(json.dumps({"suite": "auth", **told, "ok": ok}))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
