"""Keys through the gate: what somebody may give, and whose keys they see."""

from __future__ import annotations

from tests.unit.operations.conftest import Caller, OpenGate
from tests.unit.operations.running import run


def test_only_the_operator_knows_the_keys_of_other_tenants(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        acme = await caller.new_caller("*", tenant="acme", name="acme's owner")
        ours = await caller.call("key.create", name="ours", scopes=["key:read"])
        assert {item["tenant"] for item in (await caller.call("key.list"))["items"]} == {"default", "acme"}
        assert {item["tenant"] for item in (await acme.call("key.list"))["items"]} == {"acme"}
        for operation in ("key.get", "key.revoke", "key.rotate"):
            assert (await acme.refusal(operation, key_id=ours["key"]["id"])).code == "KEY_NOT_FOUND"
        refused = await acme.refusal("key.create", name="more", scopes=["*"], tenant="default")
        assert refused.code == "SCOPE_REQUIRED"
        assert (await acme.call("key.create", name="more", scopes=["*"], tenant="acme"))["key"]["tenant"] == "acme"

    run(open_caller, test)


def test_whoever_has_not_everything_is_no_operator(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        manager = await caller.new_caller("key:*", "execution:*")
        theirs = await caller.call("key.create", name="theirs", scopes=["*"], tenant="acme")
        assert (await manager.refusal("key.revoke", key_id=theirs["key"]["id"])).code == "KEY_NOT_FOUND"
        refused = await manager.refusal("key.create", name="more", scopes=["execution:read"], tenant="acme")
        assert refused.code == "SCOPE_REQUIRED"

    run(open_caller, test)
