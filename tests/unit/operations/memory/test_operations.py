"""Memory through the gate: whose it is, what it costs, what the audit trail says, and that it is erased."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.app.retention import forget_old_memory
from penstock.base import limits
from penstock.base.clock import ManualClock
from penstock.operations.gate.authentication import principal_of
from penstock.operations.gate.chosen_limits import GateLimits, MemoryLimits
from penstock.operations.gate.context import NodeVisit, Principal
from penstock.runtime.tables.api_keys import read_key
from tests.scenarios.office import Office, in_office

SECRET = "xylophone-7391"
PUT = {"scope": "principal", "key": "tone", "value": "formal"}


async def kept(office: Office, who: str | Principal, scope: str = "principal", **more: Any) -> list[str]:
    page = await office.call(who, "memory.list", scope=scope, **more)
    return [item["key"] for item in page["items"]]


def on_disk(folder: Path) -> bytes:
    """Everything that the file and its log have."""
    return b"".join(file.read_bytes() for file in folder.glob("penstock.db*"))


async def staffed(office: Office) -> None:
    await office.hire("ada", "person", "memory:*")
    await office.hire("grace", "person", "memory:*")
    await office.hire("reader", "service", "memory:read")


def test_an_entry_is_kept_read_found_listed_and_erased(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await staffed(office)
        made = await office.call("ada", "memory.put", **PUT)
        assert made == {"scope": "principal", "key": "tone", "created": True, "expires_at": None}
        assert (await office.call("ada", "memory.put", **{**PUT, "value": {"style": "brief"}}))["created"] is False
        found = await office.call("ada", "memory.get", scope="principal", key="tone")
        assert (found["value"], found["untrusted"]) == ({"style": "brief"}, False)
        assert found["updated_by"] == office.people["ada"].id
        [hit] = (await office.call("ada", "memory.search", scope="principal", text="STYL"))["items"]
        assert hit["key"] == "tone"
        await office.call("ada", "memory.put", scope="principal", key="tower", value=1)
        assert await kept(office, "ada", prefix="to") == ["tone", "tower"]
        assert await office.call("ada", "memory.delete", scope="principal", key="tone") == {
            "scope": "principal",
            "erased": 1,
        }
        assert (await office.refusal("ada", "memory.get", scope="principal", key="tone")).code == "MEMORY_NOT_FOUND"
        assert (await office.refusal("ada", "memory.delete", scope="principal", key="tone")).code == "MEMORY_NOT_FOUND"
        assert (await office.call("ada", "memory.clear", scope="principal"))["erased"] == 1
        assert (await office.call("ada", "memory.clear", scope="principal"))["erased"] == 0

    in_office(tmp_path, test)


def test_a_principal_sees_its_own_memory_and_that_of_its_tenant_and_nothing_else(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await staffed(office)
        for scope, more in (("principal", {}), ("session", {"session_id": "s-1"}), ("tenant", {})):
            await office.call("ada", "memory.put", scope=scope, key="k", value=f"ada's {scope}", **more)
        assert await kept(office, "grace") == []
        assert await kept(office, "grace", "session", session_id="s-1") == []
        assert await kept(office, "ada", "session", session_id="s-2") == []
        assert await kept(office, "ada", "session", session_id="s-1") == ["k"]
        assert await kept(office, "grace", "tenant") == ["k"]
        assert await kept(office, "reader", "tenant") == ["k"]
        stranger = replace(office.people["ada"], tenant="other")
        for scope, more in (("principal", {}), ("session", {"session_id": "s-1"}), ("tenant", {})):
            assert await kept(office, stranger, scope, **more) == []
            assert (await office.call(stranger, "memory.clear", scope=scope, **more))["erased"] == 0
        assert (await office.refusal("reader", "memory.put", **PUT)).code == "SCOPE_REQUIRED"
        assert (await office.refusal("ada", "memory.list", scope="session")).code == "SESSION_REQUIRED"
        wrong = await office.refusal("ada", "memory.list", scope="tenant", session_id="s-1")
        assert wrong.code == "SESSION_UNEXPECTED"

    in_office(tmp_path, test)


def test_who_acts_for_others_has_memory_for_each_and_a_replaced_key_keeps_its_own(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await staffed(office)
        await office.call("ada", "memory.put", **PUT)
        acting = replace(office.people["ada"], acting_for=("user:alan",))
        assert await kept(office, acting) == []
        await office.call(acting, "memory.put", **{**PUT, "key": "alan"})
        assert await kept(office, replace(acting, acting_for=("user:barbara",))) == []
        assert await kept(office, "ada") == ["tone"]
        rotated = await office.call(office.owner, "key.rotate", key_id=office.people["ada"].key_id)
        key = await read_key(office.gate.services.platform, rotated["key"]["id"])
        assert key is not None
        successor = principal_of(key)
        assert successor.id != office.people["ada"].id
        assert await kept(office, successor) == ["tone"]

    in_office(tmp_path, test)


def test_a_run_has_the_session_of_its_label_or_else_of_its_chain_and_what_a_model_puts_is_untrusted(
    tmp_path: Path,
) -> None:
    async def test(office: Office) -> None:
        await staffed(office)
        document = {"penstock": "v1", "name": "plain", "nodes": [{"id": "done", "type": "end"}]}
        await office.call(office.owner, "workflow.create", document=document)
        await office.call(office.owner, "workflow.execute", workflow_id="plain", execution_id="talk", sync=True)
        visit = NodeVisit(run_id="talk~3", node_id="call", visit=1, by_model=True)
        more = {"surface": "run", "visit": visit}
        await office.call("ada", "memory.put", scope="session", key="k", value=1, request=more)
        found = await office.call("ada", "memory.get", scope="session", key="k", session_id="talk")
        assert (found["value"], found["untrusted"]) == (1, True)
        assert found["expires_at"] is not None
        await office.call("ada", "memory.put", **PUT, request={"surface": "mcp"})
        assert (await office.call("ada", "memory.get", scope="principal", key="tone"))["untrusted"] is True

    in_office(tmp_path, test)


def test_entries_end_after_their_time_and_after_that_of_the_settings(tmp_path: Path) -> None:
    clock = ManualClock(1_900_000_000_000)

    async def test(office: Office) -> None:
        await staffed(office)
        await office.call("ada", "memory.put", **PUT, ttl_seconds=60)
        await office.call("ada", "memory.put", scope="session", session_id="s", key="k", value=SECRET)
        clock.advance(61_000)
        assert await kept(office, "ada") == []
        assert await kept(office, "ada", "session", session_id="s") == ["k"]
        clock.advance(limits.MEMORY_SESSION_TTL_SECONDS_DEFAULT * 1000)
        assert await kept(office, "ada", "session", session_id="s") == []
        await forget_old_memory(office.gate.services)
        assert SECRET.encode() not in on_disk(tmp_path)

    in_office(tmp_path, test, clock=clock)


@pytest.mark.parametrize(
    ("rules", "scope", "wanted", "ttl"),
    [
        (MemoryLimits(), "principal", None, None),
        (MemoryLimits(), "principal", 5, 5),
        (MemoryLimits(session_ttl_seconds=7), "session", None, 7),
        (MemoryLimits(session_ttl_seconds=7), "session", 9, 9),
        (MemoryLimits(ttl_default_seconds=8), "tenant", None, 8),
        (MemoryLimits(ttl_max_seconds=3), "tenant", None, 3),
        (MemoryLimits(ttl_max_seconds=3, ttl_default_seconds=8), "tenant", 9, 3),
    ],
)
def test_the_policy_of_retention(rules: MemoryLimits, scope: str, wanted: int | None, ttl: int | None) -> None:
    assert rules.ttl_seconds(scope, wanted) == ttl


def test_a_space_that_is_full_and_a_value_that_is_too_large_are_refused(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await staffed(office)
        services = office.gate.services
        small = GateLimits(memory=MemoryLimits(entries_max=2, value_bytes_max=100))
        object.__setattr__(services, "limits", small)
        for key in ("a", "b"):
            await office.call("ada", "memory.put", **{**PUT, "key": key})
        full = await office.refusal("ada", "memory.put", **{**PUT, "key": "c"})
        assert (full.code, full.details) == ("MEMORY_FULL", {"what": "entries", "limit": 2})
        assert await kept(office, "ada") == ["a", "b"]
        large = await office.refusal("ada", "memory.put", **{**PUT, "key": "a", "value": "x" * 100})
        assert large.code == "MEMORY_VALUE_TOO_LARGE"
        for key in ("", "a/b", "-a", "a b", "x" * 201, "ä"):
            assert (await office.refusal("ada", "memory.put", **{**PUT, "key": key})).code == "INVALID_ARGUMENTS"

    in_office(tmp_path, test)


def test_the_audit_trail_has_keys_and_no_values_and_the_file_has_nothing_after_a_delete(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await staffed(office)
        await office.call("ada", "memory.put", scope="principal", key="word", value=SECRET)
        await office.call("ada", "memory.search", scope="principal", text="xylophone")
        assert SECRET.encode() in on_disk(tmp_path)
        more = {"idempotency_key": "once"}
        for _ in range(2):
            answer = await office.call("ada", "memory.delete", scope="principal", key="word", request=more)
            assert answer["erased"] == 1
        await office.gate.flush(final=True)
        trail = await office.call(office.owner, "audit.list", limit=100)
        mine = [item for item in trail["items"] if item["operation"].startswith("memory.")]
        assert {(item["operation"], item["subject"]) for item in mine} >= {
            ("memory.put", "principal:word"),
            ("memory.delete", "principal:word"),
        }
        assert "xylophone" not in str(trail)
        assert b"xylophone" not in on_disk(tmp_path)

    in_office(tmp_path, test)


def test_a_policy_decides_about_memory_by_scope_and_key(tmp_path: Path) -> None:
    text = """
    @id("shared") forbid (principal, action == Action::"memory.put", resource)
      when { context.input.scope == "tenant" };
    """

    async def test(office: Office) -> None:
        await staffed(office)
        await office.call(office.owner, "policy.put", policy_id="memory", text=text)
        await office.call("ada", "memory.put", **PUT)
        refused = await office.refusal("ada", "memory.put", **{**PUT, "scope": "tenant"})
        assert refused.code == "POLICY_DENIED"

    in_office(tmp_path, test)
