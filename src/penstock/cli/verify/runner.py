"""Runs checks against a server: one profile after the other, some checks at once, those that exhaust limits alone.

Above it: the command. Below it: `kit`, the profiles.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence

import httpx2

from penstock.cli.verify.checks import Check, CheckFailed, CheckResult, NotApplicable
from penstock.cli.verify.kit import Kit
from penstock.cli.verify.profiles.abuse import fuzzing, rates
from penstock.cli.verify.target import CHECK_TIMEOUT, Target, open_http

__all__ = ["run_checks"]

# Most of the time is spent waiting for keys to expire and records to be written.
_AT_ONCE = 6
_CHECK_SECONDS_MAX = 300.0
_ALONE = (rates.__name__, fuzzing.__name__)


async def run_checks(
    target: Target,
    checks: Sequence[Check],
    *,
    done: Callable[[CheckResult], None] = lambda result: None,
    transport: httpx2.AsyncBaseTransport | None = None,
) -> list[CheckResult]:
    """Run checks; return their results in the order of the checks."""
    results: dict[str, CheckResult] = {}

    async def run(check: Check, kit: Kit) -> None:
        results[check.id] = result = await _result(check, kit)
        done(result)

    async with open_http(target, transport) as http:
        kit, places = Kit(target, http), asyncio.Semaphore(_AT_ONCE)

        async def run_in_turn(check: Check) -> None:
            async with places:
                await run(check, kit)

        for profile in dict.fromkeys(check.profile for check in checks):
            # One profile after the other: `abuse` would hide in its flood what the others look for in the log.
            own = [check for check in checks if check.profile == profile]
            async with asyncio.TaskGroup() as group:
                for check in _together(own):
                    group.create_task(run_in_turn(check))
            for check in own:
                if check.id not in results:
                    await run(check, kit)
    return [results[check.id] for check in checks]


def _together(checks: Iterable[Check]) -> list[Check]:
    """Return the checks that may run at once with others."""
    return [check for check in checks if _module_of(check) not in _ALONE]


def _module_of(check: Check) -> str:
    function = getattr(check.run, "func", check.run)
    return str(getattr(function, "__module__", ""))


async def _result(check: Check, kit: Kit) -> CheckResult:
    began = time.monotonic()
    try:
        async with asyncio.timeout(_CHECK_SECONDS_MAX) as bound:
            CHECK_TIMEOUT.set(bound)
            await check.run(kit)
    except NotApplicable as reason:
        return CheckResult(check=check, status="not_applicable", reason=str(reason), seconds=time.monotonic() - began)
    except CheckFailed as failure:
        expected, seen = failure.expected, failure.seen
    except TimeoutError:
        expected, seen = "an end of the check", f"none within {_CHECK_SECONDS_MAX:g} s"
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        # A server that leaves something out has not passed, whatever the check was about to look at.
        expected, seen = "an answer in the form of the profile", f"{type(error).__name__}: {error}"
    else:
        return CheckResult(check=check, status="passed", seconds=time.monotonic() - began)
    return CheckResult(check=check, status="failed", expected=expected, seen=seen, seconds=time.monotonic() - began)
