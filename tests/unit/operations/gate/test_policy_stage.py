"""The stage for policies: when it is known that there are none."""

from __future__ import annotations

import pytest

from penstock.governance.policy.source import parse_policies
from penstock.operations.gate.policy_stage import POLICY_KIND, PolicyStage
from penstock.runtime.ports.database import Database
from penstock.runtime.tables.resources import put_resource
from tests.conformance.platform_stores import resource
from tests.opened_database import database_fixture  # noqa: F401

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


async def test_that_there_are_no_policies_is_known_until_some_are_stored(database: Database) -> None:
    stage = PolicyStage(database, Clock())
    assert not stage.has_none("acme"), "nobody has looked"
    assert await stage.of("acme") is None
    assert stage.has_none("acme")
    assert not stage.has_none("other")
    stored = resource(kind=POLICY_KIND, resource_id="own", tenant="acme", body={"text": ALL})
    await put_resource(database, stored, expected_etag=None)
    assert not stage.has_none("acme"), "another process may have stored some"
    assert await stage.of("acme") is not None
    assert not stage.has_none("acme")


async def test_policies_that_this_process_stores_or_loads_are_looked_for_at_once(database: Database) -> None:
    stage = PolicyStage(database, Clock())
    await stage.of("acme")
    stage.changed("acme")
    assert not stage.has_none("acme")
    await stage.of("acme")
    stage.replace_server_set(parse_policies(ALL).policies)
    assert not stage.has_none("acme")
    assert await stage.of("acme") is not None
    assert not stage.has_none("acme")
