"""`scripts/verify`: the kit on a fresh server, as anybody runs it, and on every broken one.

The last line is one JSON object: checks and passes of each profile, how many broken servers were caught, and `ok`. With
`--short` the fresh server is checked with profile `core` and the checks that catch mistakes, in this process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
from typing import Any

from penstock.cli.verify.profiles.listing import PROFILES
from penstock.cli.verify.report import report_json
from tests.conformance.verify_kit.breakages import BREAKAGES
from tests.conformance.verify_kit.running import checks_named, results_of

_SECONDS_MAX = 900.0


def _fresh() -> dict[str, Any]:
    """The report of `penstock server verify --json`."""
    command = [sys.executable, "-m", "penstock", "server", "verify", "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=_SECONDS_MAX, check=False)
    found: dict[str, Any] = json.loads(done.stdout)
    if (done.returncode == 0) != found["ok"]:
        raise SystemExit(f"the exit code {done.returncode} contradicts the report")
    return found


async def _fresh_in_short() -> dict[str, Any]:
    chosen = {check_id for breakage in BREAKAGES for check_id in breakage.caught_by}
    chosen.update(check.id for check in PROFILES["core"].checks)
    return dict(report_json(await results_of(checks_named(*chosen))))


async def _caught() -> list[str]:
    """The names of the broken servers that were caught by every check that is meant for them."""
    found = []
    for breakage in BREAKAGES:
        results = await results_of(checks_named(*breakage.caught_by), breakage)
        missed = [result.check.id for result in results if result.status != "failed"]
        print(f"{'not caught' if missed else 'caught':<11}{breakage.name}: {breakage.about}", flush=True)
        if not missed:
            found.append(breakage.name)
    return found


def main() -> int:
    """Run the kit; print what failed, then the line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="only the checks that catch mistakes, in this process")
    short = parser.parse_args().short
    report = asyncio.run(_fresh_in_short()) if short else _fresh()
    for result in report["results"]:
        if result["status"] != "passed":
            said = result.get("seen") or result.get("reason")
            print(f"{result['status']:<15}{result['id']}: {result['requirement']} {said}", flush=True)
    caught = asyncio.run(_caught())
    profiles = {
        name: {"checks": counts["checks"], "passed": counts["passed"]} for name, counts in report["profiles"].items()
    }
    passed = all(counts["passed"] == counts["checks"] for counts in profiles.values())
    ok = bool(report["ok"]) and passed and len(caught) == len(BREAKAGES)
    print(json.dumps({**profiles, "broken": len(BREAKAGES), "broken_caught": len(caught), "ok": ok}))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
