"""Policies and the agent profile work on one server, and no surface declares a name that policies reserve."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from penstock.agent_profile.surface import AgentProfileOptions
from penstock.app.serving.server import ServerOptions
from penstock.governance.policy.schema import RESERVED_TYPES
from penstock.operations.builtin import builtin_operations, internal_operations, profile_operations
from tests.scenarios.test_policies import BASE, new_key
from tests.unit.rest.conftest import opened
from tests.waiting import until

pytestmark = pytest.mark.anyio
NO_SERVICES = '@id("no-services") forbid (principal is Service, action, resource);\n'


async def test_policies_are_stored_and_enforced_beside_the_agent_profile(tmp_path: Path) -> None:
    file = tmp_path / "policies.cedar"
    file.write_text(BASE, encoding="utf-8")
    profile = AgentProfileOptions(enabled=True, fixtures=True)
    async with opened(tmp_path, ServerOptions(policy_files=(str(file),), agent_profile=profile)) as client:
        key = await new_key(client, "workflow:read", kind="service")
        stored = await client(
            "PUT", "policies/own", {"text": '@id("own") forbid (principal is Agent, action, resource);'}
        )
        assert stored.status in (200, 201), stored
        assert (await client("GET", "workflows", key=key)).status == 200
        await asyncio.to_thread(file.write_text, BASE + NO_SERVICES, encoding="utf-8")

        async def is_refused() -> bool:
            return (await client("GET", "workflows", key=key)).status == 403

        await until(is_refused)


async def test_no_operation_has_a_resource_of_a_type_that_policies_reserve() -> None:
    operations = (*builtin_operations(), *internal_operations(), *profile_operations(fixtures=True))
    taken = {item.name for item in operations if item.policy_action.resource_type in RESERVED_TYPES}
    assert not taken
