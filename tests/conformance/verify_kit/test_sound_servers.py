"""The kit accuses nobody: no check is red on a sound server, however slow it is and whatever its settings say."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import httpx2
import pytest

from penstock.cli.verify import kit
from penstock.cli.verify.checks import CheckResult
from penstock.cli.verify.fresh_server import FRESH_SETTINGS
from penstock.cli.verify.profiles.listing import PROFILES
from penstock.cli.verify.runner import run_checks
from penstock.cli.verify.target import Target, Traffic, open_http
from penstock.runtime.system import SystemClock
from tests.conformance.verify_kit.running import checks_named
from tests.conformance.verify_kit.servers import serving, serving_settings
from tests.fixtures.everything_on import everything_on, neighborhood, open_everything
from tests.thorough import IS_THOROUGH
from tests.waiting import until

_RATES = "limits: {read_per_minute: 1200, write_per_minute: 2400, admin_per_minute: 6000}\n"
SETTINGS: dict[str, str] = {
    "open": f"governance: {{preset: open}}\n{_RATES}",
    "careful": f"governance: {{preset: careful}}\n{_RATES}",
    "few at once": FRESH_SETTINGS + "  concurrent_per_key: 4\n",
    "few reads": "governance: {preset: strict}\nlimits: {read_per_minute: 90, admin_per_minute: 6000}\n",
    "small": """\
governance: {preset: strict, preflight_timeout: 20s, approvals: {timeout: 2m, count: 1}}
limits: {read_per_minute: 1200, write_per_minute: 2400, admin_per_minute: 6000, concurrent_per_key: 8}
server:
  max_body_bytes: 8192
  max_concurrent_requests: 8
  gzip_min_bytes: null
  docs_enabled: false
  console_enabled: false
  mcp: {tool_names: dot, tool_prefix: own, fast_path: false, output_schemas: true}
idempotency: {ttl: 1m}
auth: {keys: {default_expiry: 1h}}
""",
}
"""Settings that a server may have."""
# Those that depend on settings, on limits or on time; thorough runs try all.
_LIMITED = ("abuse.forged-address-does-not-help", "abuse.mcp-is-limited", "abuse.rate-limited")
_SEPARATED = {"writes.key-maker-does-not-approve", "writes.key-maker-does-not-approve-with-another-key"}
_HELD = {
    "state-witness.changed-child-after-approval",
    "state-witness.changed-child-before-approval",
    "state-witness.unchanged-child-runs",
    "writes.stored-workflow-waits",
}
_TRIED = ("authz.broken-policy-keeps-the-last", *sorted(_SEPARATED), *sorted(_HELD))
LEFT_OUT = {"open": _SEPARATED | _HELD, "careful": _SEPARATED}
"""What cannot be checked where the operator has switched it off."""
_ENDS = ("authz.expired-key", "writes.grant-ends", "writes.high-risk-grant-ends")


def red(results: Sequence[CheckResult]) -> list[tuple[str, str | None, str | None]]:
    return [(item.check.id, item.expected, item.seen) for item in results if item.status == "failed"]


async def results_on(target: Target, *more: str) -> list[CheckResult]:
    everything = [check for profile in PROFILES.values() for check in profile.checks]
    checks = everything if IS_THOROUGH else checks_named(*_TRIED, *more)
    return await run_checks(dataclasses.replace(target, patience_seconds=120.0), checks)


@pytest.mark.parametrize("name", SETTINGS)
def test_no_check_is_red_on_a_server_with_settings_that_are_allowed(tmp_path: Path, name: str) -> None:
    async def test() -> list[CheckResult]:
        async with serving(tmp_path, text=SETTINGS[name]) as target:
            return await results_on(target, *_LIMITED)

    results = asyncio.run(test())
    assert not red(results)
    left_out = {item.check.id for item in results if item.status == "not_applicable" and item.check.id in _TRIED}
    assert left_out == LEFT_OUT.get(name, set())


def test_no_check_is_red_on_a_server_with_everything_on(tmp_path: Path) -> None:
    async def test() -> list[CheckResult]:
        with neighborhood(tmp_path / "around") as around:
            settings = everything_on(tmp_path, around)
            async with serving_settings(settings, open_everything(settings, around)) as target:
                return await results_on(target)

    assert not red(asyncio.run(test()))


_ENDS_AT = re.compile(rb'"(?:expiresAt|expires_at)": "([^"]+)"')


def _is_past(instant: str) -> bool:
    return instant < kit.moment(0)


class _Slow(httpx2.AsyncHTTPTransport):
    """A way to the server on which the first request of each kind takes so long that what it asks for is over."""

    def __init__(self) -> None:
        super().__init__()
        self._known = set[str]()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        kind = request.url.path.rpartition("/")[2]
        ends = _ENDS_AT.search(request.content)
        if ends is not None and kind not in self._known:
            self._known.add(kind)
            await until(partial(_is_past, ends[1].decode()))
        return await super().handle_async_request(request)


class _Ahead(SystemClock):
    """A clock that is ahead of ours."""

    def now_ms(self) -> int:
        return super().now_ms() + 700


@pytest.mark.parametrize("way", ["fast", "slow", "ahead"])
def test_what_ends_is_seen_to_end_however_fast_the_server_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(kit, "_END_SECONDS", 0.5)
    transport = _Slow() if way == "slow" else None
    clock = _Ahead() if way == "ahead" else None

    async def test() -> list[CheckResult]:
        async with serving(tmp_path, clock=clock) as target:
            return await run_checks(target, checks_named(*_ENDS), transport=transport)

    results = asyncio.run(test())
    assert [(item.check.id, item.status, item.seen) for item in results] == [(name, "passed", None) for name in _ENDS]


def test_a_caller_that_one_request_costs_more_than_a_second_gives_waits_longer_until_it_is_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server that counts a request several times says when the next count is free, not when all are."""
    now, last, waited = [0.0], [0.0], list[float]()

    async def pass_time(seconds: float) -> None:
        waited.append(seconds)
        now[0] += seconds

    def answer(request: httpx2.Request) -> httpx2.Response:
        free, last[0] = now[0] - last[0], now[0]
        return httpx2.Response(200, json={}) if free >= 5 else httpx2.Response(429, headers={"retry-after": "1"})

    monkeypatch.setattr("penstock.cli.verify.target.time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr("penstock.cli.verify.target.asyncio", SimpleNamespace(sleep=pass_time))

    async def test() -> int:
        async with open_http(Target(url="http://127.0.0.1:1"), httpx2.MockTransport(answer)) as http:
            return (await Traffic().send(http, http.build_request("GET", "/audit"))).status

    assert asyncio.run(test()) == 200
    assert sum(waited) < 60
