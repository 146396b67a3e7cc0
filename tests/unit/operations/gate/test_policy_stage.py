"""The stage for policies: when it is known that there are none."""

from __future__ import annotations

import pytest

from penstock.base import limits
from penstock.governance.policy.source import parse_policies
from penstock.operations.gate.policy_stage import POLICY_KIND, PolicyStage
from penstock.runtime.stores.memory.platform_store import MemoryPlatformStore
from tests.conformance.platform_stores import resource

pytestmark = pytest.mark.anyio
ALL = '@id("all") permit (principal, action, resource);'


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 10_000

    def now_ms(self) -> int:
        return self.now

    def elapsed_ms(self) -> int:
        return self.now


async def test_that_there_are_no_policies_is_known_for_a_moment_after_they_were_read() -> None:
    platform, clock = MemoryPlatformStore(), Clock()
    stage = PolicyStage(platform, clock)
    assert not stage.has_none("acme"), "nobody has looked"
    assert await stage.of("acme") is None
    assert stage.has_none("acme")
    assert not stage.has_none("other")
    stored = resource(kind=POLICY_KIND, resource_id="own", tenant="acme", body={"text": ALL})
    await platform.put_resource(stored, expected_etag=None)
    clock.now += limits.POLICY_REREAD_MS
    assert not stage.has_none("acme"), "another process may have stored some"
    assert await stage.of("acme") is not None
    assert not stage.has_none("acme")


async def test_policies_that_this_process_stores_or_loads_are_looked_for_at_once() -> None:
    stage = PolicyStage(MemoryPlatformStore(), Clock())
    await stage.of("acme")
    stage.changed("acme")
    assert not stage.has_none("acme")
    await stage.of("acme")
    stage.replace_server_set(parse_policies(ALL).policies)
    assert not stage.has_none("acme")
    assert await stage.of("acme") is not None
    assert not stage.has_none("acme")


async def test_a_clock_that_went_back_makes_nothing_known() -> None:
    clock = Clock()
    stage = PolicyStage(MemoryPlatformStore(), clock)
    await stage.of("acme")
    clock.now -= 1
    assert not stage.has_none("acme")
