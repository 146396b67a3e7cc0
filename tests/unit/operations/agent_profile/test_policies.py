"""Where an app may call from is a policy of the gate, made from what is stored of the app."""

from __future__ import annotations

import asyncio
from ipaddress import ip_address, ip_network
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from penstock.governance.policy.source import parse_policies
from penstock.operations.agent_profile.policies import network_policy
from penstock.operations.agent_profile.records import AppPolicy, AppRecord, NetworkPolicy
from tests.unit.agent_profile.test_surface import ADMIN, AGENT, new_app, refused, serving
from tests.unit.rest.conftest import Client


def app(allowed: list[str] | None) -> AppRecord:
    policy = AppPolicy(network=NetworkPolicy(allowed_ips=allowed))
    return AppRecord(id="app_1.tenant-2", name="a", policy=policy)


def test_an_app_without_a_list_may_call_from_anywhere() -> None:
    assert network_policy(app(None)) is None


@given(
    st.lists(
        st.one_of(
            st.ip_addresses().map(str),
            st.ip_addresses(v=4).flatmap(lambda a: st.integers(0, 32).map(lambda n: f"{a}/{n}")),
            st.ip_addresses(v=6).flatmap(lambda a: st.integers(0, 128).map(lambda n: f"{a}/{n}")),
        ),
        max_size=5,
    )
)
def test_every_list_becomes_one_policy_that_can_be_read(allowed: list[str]) -> None:
    text = network_policy(app([str(ip_network(item, strict=False)) for item in allowed]))
    assert text is not None
    parsed = parse_policies(text)
    assert parsed.problems == ()
    (policy,) = parsed.policies
    assert (policy.id, policy.effect) == ("app.app_1.tenant-2.network", "forbid")


def test_the_address_of_the_connection_decides(tmp_path: Path) -> None:
    async def reads(client: Client, allowed: list[str]) -> int:
        made = await new_app(client)
        path = f"{ADMIN}/apps/{made['app']['id']}/policy"
        assert (await client("PATCH", path, {"network": {"allowed_ips": allowed}})).status == 200
        forged = {"x-forwarded-for": "203.0.113.10", "forwarded": "for=203.0.113.10"}
        answer = await client("GET", f"{AGENT}/ledgers", key=made["token"], headers=forged)
        if answer.status != 200:
            refused(answer, 403, "agent.policy_denied")
        manifest = await client("GET", f"{AGENT}/manifest", key=made["token"])
        assert bool(manifest.json()["data"]["tools"]) == (answer.status == 200)
        return answer.status

    async def test() -> None:
        async with serving(tmp_path) as client:
            own = ip_address("127.0.0.1")
            assert await reads(client, [str(own)]) == 200
            assert await reads(client, ["10.0.0.0/8", "127.0.0.0/8"]) == 200
            assert await reads(client, ["203.0.113.10"]) == 403
            assert await reads(client, ["::/0"]) == 403
            assert await reads(client, []) == 403

    asyncio.run(test())
