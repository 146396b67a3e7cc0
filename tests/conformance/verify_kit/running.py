"""Runs the kit on servers of this process: whether it is green on a sound one, and what it finds on a broken one."""

from __future__ import annotations

import tempfile
from pathlib import Path

from penstock.cli.verify.checks import Check, CheckResult
from penstock.cli.verify.profiles.listing import PROFILES
from penstock.cli.verify.runner import run_checks
from tests.conformance.verify_kit.breakages import Breakage
from tests.conformance.verify_kit.servers import serving

__all__ = ["checks_named", "results_of"]


def checks_named(*ids: str) -> list[Check]:
    """The checks with these ids, in the order of the kit."""
    wanted = set(ids)
    found = [check for profile in PROFILES.values() for check in profile.checks if check.id in wanted]
    assert {check.id for check in found} == wanted, wanted - {check.id for check in found}
    return found


async def results_of(checks: list[Check], breakage: Breakage | None = None) -> list[CheckResult]:
    """What checks find on a server with a mistake, or on one without."""
    with tempfile.TemporaryDirectory(prefix="penstock-verify-") as folder:
        async with serving(Path(folder), breakage) as target:
            return await run_checks(target, checks)
