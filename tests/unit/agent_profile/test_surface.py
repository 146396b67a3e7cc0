"""The agent profile over a real gate: envelopes, tools by scopes, apps and keys, the demo ledger behind its switch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.agent_profile.surface import AgentProfileOptions
from penstock.app.serving.server import ServerOptions
from penstock.definitions.durations import format_instant
from penstock.operations.gate.context import HoldChoices
from penstock.runtime.system import SystemClock
from tests.unit.rest.conftest import Answered, Client, opened

AGENT, ADMIN = "/api/agent/v1", "/api/agent-admin/v1"
SCOPES = ["ledger.read", "transaction.read", "transaction.write", "transaction.delete"]
SERVED = AgentProfileOptions(enabled=True, fixtures=True)


@asynccontextmanager
async def serving(folder: Path, chosen: AgentProfileOptions = SERVED) -> AsyncIterator[Client]:
    async with opened(folder, ServerOptions(agent_profile=chosen)) as client:
        yield client


async def new_app(client: Client, scopes: list[str] | None = None, **more: Any) -> dict[str, Any]:
    body = {"name": "bookkeeper", "scope": "personal", "scopes": SCOPES if scopes is None else scopes, **more}
    made = await client("POST", f"{ADMIN}/apps", body)
    assert made.status == 200, made
    found: dict[str, Any] = made.json()["data"]
    return found


def run(folder: Path, test: Callable[[Client], Awaitable[None]], chosen: AgentProfileOptions = SERVED) -> None:
    async def body() -> None:
        async with serving(folder, chosen) as client:
            await test(client)

    asyncio.run(body())


def refused(answer: Answered, status: int, code: str) -> None:
    body = answer.json()
    assert (answer.status, body["ok"], body["code"]) == (status, False, code), answer
    assert isinstance(body["message"], str)


def test_nothing_is_served_unless_it_is_switched_on(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        assert (await client("GET", f"{AGENT}/manifest")).status == 404
        assert client.gate.catalogue.get("app.create") is None
        assert client.gate.catalogue.get("ledger.list") is None

    run(tmp_path, test, AgentProfileOptions())


def test_the_demo_ledger_has_a_switch_of_its_own(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        assert (await client("GET", f"{AGENT}/manifest")).status == 200
        refused(await client("GET", f"{AGENT}/ledgers"), 404, "agent.not_found")
        assert client.gate.catalogue.get("ledger.list") is None

    run(tmp_path, test, AgentProfileOptions(enabled=True))


def test_a_manifest_lists_what_the_app_may_call(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        made = await new_app(client, ["ledger.read"])
        answer = (await client("GET", f"{AGENT}/manifest", key=made["token"])).json()
        assert answer["data"]["app"]["id"] == made["app"]["id"]
        names = {tool["name"] for tool in answer["data"]["tools"]}
        assert "ledger.list" in names
        assert not {"transaction.list", "transaction.create", "workflow.create", "app.create"} & names
        tool = next(tool for tool in answer["data"]["tools"] if tool["name"] == "ledger.list")
        assert tool["requiredScopes"] == ["ledger.read"]
        assert tool["http"] == {"method": "GET", "path": f"{AGENT}/ledgers"}

    run(tmp_path, test)


def test_refusals_of_every_kind_are_in_the_envelope(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        token = (await new_app(client, ["ledger.read"]))["token"]
        refused(await client("GET", f"{AGENT}/manifest", key=""), 401, "agent.token_invalid")
        refused(await client("GET", f"{AGENT}/nothing"), 404, "agent.not_found")
        refused(await client("GET", f"{ADMIN}/nothing/at/all"), 404, "agent.not_found")
        refused(await client("DELETE", f"{AGENT}/manifest"), 405, "common.validation")
        refused(await client("POST", f"{ADMIN}/apps", b"{"), 400, "common.validation")
        refused(await client("POST", f"{ADMIN}/apps", b"[]"), 400, "common.validation")
        refused(await client("POST", f"{ADMIN}/apps"), 400, "common.validation")
        text = {"content-type": "text/plain"}
        refused(await client("POST", f"{ADMIN}/apps", b"{}", headers=text), 415, "common.validation")
        transactions = f"{AGENT}/transactions?ledgerId=ledger_main"
        refused(await client("GET", transactions, key=token), 403, "agent.scope_denied")
        refused(await client("GET", f"{ADMIN}/apps", key=token), 403, "agent.scope_denied")
        refused(await client("POST", f"{ADMIN}/apps/app_none/keys", {"name": "x"}), 404, "agent.not_found")

    run(tmp_path, test)


def test_violations_are_listed_as_issues(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        answer = await client("POST", f"{ADMIN}/apps", {"name": "", "scopes": 7})
        refused(answer, 400, "agent.action_invalid")
        issues = answer.json()["details"]["issues"]
        assert {tuple(issue["path"]) for issue in issues} == {("name",), ("scopes",)}

    run(tmp_path, test)


def test_a_revoked_app_has_no_valid_key_and_gets_none(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        made = await new_app(client)
        app = made["app"]["id"]
        refused(await client("DELETE", f"{ADMIN}/apps/{app}"), 400, "common.validation")
        assert (await client("POST", f"{ADMIN}/apps/{app}/revoke", {})).status == 200
        refused(await client("GET", f"{AGENT}/manifest", key=made["token"]), 401, "agent.token_invalid")
        refused(await client("POST", f"{ADMIN}/apps/{app}/keys", {"name": "late"}), 409, "agent.precondition_failed")
        assert (await client("POST", f"{ADMIN}/apps/{app}/restore", {})).status == 200
        refused(await client("GET", f"{AGENT}/manifest", key=made["token"]), 401, "agent.token_invalid")
        again = (await client("POST", f"{ADMIN}/apps/{app}/keys", {"name": "new"})).json()["data"]
        assert (await client("GET", f"{AGENT}/manifest", key=again["token"])).status == 200
        await client("POST", f"{ADMIN}/apps/{app}/revoke", {})
        assert (await client("DELETE", f"{ADMIN}/apps/{app}")).status == 200
        refused(await client("GET", f"{ADMIN}/apps/{app}/tools"), 404, "agent.not_found")

    run(tmp_path, test)


def test_no_answer_but_the_first_holds_key_material(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        made = await new_app(client)
        listed = await client("GET", f"{ADMIN}/apps")
        revoked = await client("POST", f"{ADMIN}/keys/{made['key']['id']}/revoke", {})
        for answer in (listed, revoked):
            assert answer.status == 200
            assert made["token"].encode() not in answer.body
            assert b"secret" not in answer.body
            assert b"hash" not in answer.body

    run(tmp_path, test)


@pytest.mark.parametrize("ledgers", [[], ["ledger_elsewhere"]])
def test_a_ledger_that_is_not_allowed_is_neither_listed_nor_read(tmp_path: Path, ledgers: list[str]) -> None:
    async def test(client: Client) -> None:
        made = await new_app(client)
        policy = {"data": {"allowed_ledger_ids": ledgers}}
        assert (await client("PATCH", f"{ADMIN}/apps/{made['app']['id']}/policy", policy)).status == 200
        listed = (await client("GET", f"{AGENT}/ledgers", key=made["token"])).json()
        assert listed["data"] == {"items": []}
        transactions = f"{AGENT}/transactions?ledgerId=ledger_main"
        refused(await client("GET", transactions, key=made["token"]), 403, "agent.policy_denied")

    run(tmp_path, test)


def in_days(days: int) -> str:
    return format_instant(SystemClock().now_ms() + days * 86_400_000)


LATER = in_days(30)


def test_a_patch_merges_and_a_put_replaces(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        path = f"{ADMIN}/apps/{(await new_app(client))['app']['id']}"

        async def policy(method: str, body: Any) -> Any:
            answer = await client(method, f"{path}/policy", body)
            assert answer.status == 200, answer
            return {name: part for name, part in answer.json()["data"]["policy"].items() if part}

        network = {"allowed_ips": ["192.0.2.0/24"]}
        await policy("PATCH", {"network": network, "data": {"allowed_ledger_ids": ["ledger_main"], "max_days": 30}})
        merged = await policy("PATCH", {"data": {"max_days": 7}})
        assert merged == {"network": network, "data": {"allowed_ledger_ids": ["ledger_main"], "max_days": 7}}
        assert await policy("PATCH", {}) == merged
        removed = await policy("PATCH", {"data": {"max_days": None}, "network": None})
        assert removed == {"data": {"allowed_ledger_ids": ["ledger_main"]}}
        assert await policy("PUT", {"data": {"max_days": 3}}) == {"data": {"max_days": 3}}
        for method in ("PATCH", "PUT"):
            refused(await client(method, f"{path}/policy", {"data": {"max_years": 1}}), 400, "agent.action_invalid")
        high = {"enabled": True, "expires_at": LATER, "max_export_rows": 5}
        await client("PUT", f"{path}/auto-execute", {"high_risk": high})
        answer = await client("PATCH", f"{path}/auto-execute", {"high_risk": {"require_preflight": False}})
        found = answer.json()["data"]["auto_execute"]
        assert {name: found["high_risk"][name] for name in high} == high
        assert found["high_risk"]["require_preflight"] is False
        replaced = await client("PUT", f"{path}/auto-execute", {"writes": {"enabled": False}})
        assert not replaced.json()["data"]["auto_execute"]["high_risk"]["enabled"]

    run(tmp_path, test)


def test_a_grant_needs_an_end(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        path = f"{ADMIN}/apps/{(await new_app(client))['app']['id']}/auto-execute"
        refused(await client("PATCH", path, {"writes": {"enabled": True}}), 400, "agent.action_invalid")
        far = {"writes": {"enabled": True, "expires_at": in_days(93)}}
        refused(await client("PATCH", path, far), 400, "agent.action_invalid")
        refused(await client("PUT", path, far), 400, "agent.action_invalid")
        assert (await client("PATCH", path, {"writes": {"expires_at": in_days(93)}})).status == 200
        refused(await client("PATCH", path, {"writes": {"enabled": True}}), 400, "agent.action_invalid")
        grant = {"writes": {"enabled": True, "expires_at": LATER}}
        stored = (await client("PATCH", path, grant)).json()["data"]["auto_execute"]
        assert stored["writes"]["enabled"]
        assert not stored["high_risk"]["enabled"]

    run(tmp_path, test)


def test_audit_events_name_the_app_and_stable_codes(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        made = await new_app(client, ["ledger.read"])
        await client("GET", f"{AGENT}/transactions?ledgerId=ledger_main", key=made["token"])
        events = (await client("GET", f"{ADMIN}/audit")).json()["data"]["items"]
        refusal = next(event for event in events if event["key_id"] == made["key"]["id"])
        assert (refusal["status"], refusal["code"]) == ("denied", "agent.scope_denied")
        assert refusal["app_id"] == made["app"]["id"]
        created = next(event for event in events if event["action"] == "agent_app.create")
        assert created["app_id"] == made["app"]["id"]
        verified = (await client("GET", f"{ADMIN}/audit/verify")).json()["data"]
        assert verified["intact"]

    run(tmp_path, test)


# --- every stored setting of an app holds, or is refused -------------------------------------------------------------

PRESETS = ("open", "careful", "strict")
EXPENSE = {"ledgerId": "ledger_main", "kind": "expense", "title": "Tea", "amount_home": 3, "date": "2026-02-01"}
DELETE = {"action": "transaction.delete", "payload": {"transactionId": "txn_1"}, "execute": True}
REASON = {"justification": "asked for by the customer"}


def under(preset: Any) -> ServerOptions:
    return ServerOptions(agent_profile=SERVED, holds=HoldChoices(preset=preset))


async def acted(client: Client, token: str, body: dict[str, Any]) -> tuple[str, str | None]:
    """What became of an action: its status, and why it was not executed."""
    answer = await client("POST", f"{AGENT}/actions", body, headers={"authorization": f"Bearer {token}"})
    assert answer.status == 200, answer
    data = answer.json()["data"]
    return data["status"], data.get("autoExecuteDeniedCode")


async def granted(client: Client, **auto_execute: Any) -> str:
    """The token of an app that may execute some things by itself."""
    made = await new_app(client)
    path = f"{ADMIN}/apps/{made['app']['id']}/auto-execute"
    answer = await client("PATCH", path, auto_execute)
    assert answer.status == 200, answer
    token: str = made["token"]
    return token


@pytest.mark.parametrize("preset", PRESETS)
def test_an_app_changes_nothing_by_itself_without_a_grant_whatever_the_preset(tmp_path: Path, preset: Any) -> None:
    async def test() -> None:
        async with opened(tmp_path, under(preset)) as client:
            create = {"action": "transaction.create", "payload": EXPENSE, "execute": True}
            token = await granted(client)
            assert await acted(client, token, create) == ("draft", "agent.auto_execute_disabled")
            token = await granted(client, writes={"enabled": True, "expires_at": LATER, "allowed_actions": []})
            assert await acted(client, token, create) == ("draft", "agent.auto_execute_denied")
            dangerous = {"enabled": True, "expires_at": LATER}
            token = await granted(client, high_risk=dangerous)
            assert await acted(client, token, create) == ("draft", "agent.auto_execute_disabled")
            token = await granted(client, writes={"enabled": True, "expires_at": LATER})
            assert await acted(client, token, create) == ("executed", None)

    asyncio.run(test())


@pytest.mark.parametrize(
    ("more", "given", "became"),
    [
        ({}, {"idempotencyKey": "one"}, ("draft", "agent.preflight_required")),
        ({"require_preflight": False}, {"idempotencyKey": "one"}, ("executed", None)),
        ({"require_preflight": False}, {}, ("draft", "agent.idempotency_required")),
        ({"require_preflight": False, "require_idempotency": False}, {}, ("executed", None)),
        ({"require_idempotency": False}, {}, ("draft", "agent.preflight_required")),
    ],
)
@pytest.mark.parametrize("preset", ["careful", "strict"])
def test_a_grant_may_do_without_a_preflight_or_an_idempotency_key(
    tmp_path: Path, preset: Any, more: dict[str, bool], given: dict[str, str], became: tuple[str, str | None]
) -> None:
    async def test() -> None:
        async with opened(tmp_path, under(preset)) as client:
            token = await granted(client, high_risk={"enabled": True, "expires_at": LATER, **more})
            assert await acted(client, token, {**DELETE, **REASON, **given}) == became

    asyncio.run(test())


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("auto-execute", {"high_risk": {"enabled": True}}),
        ("auto-execute", {"high_risk": {"max_export_rows": 0}}),
        ("auto-execute", {"high_risk": {"require_step_up": True}}),
        ("auto-execute", {"writes": {"require_preflight": True}}),
        ("policy", {"data": {"max_rows": 5}}),
        ("policy", {"network": {"allowed_ips": ["nowhere"]}}),
        ("policy", {"time": {"hours": [9, 17]}}),
    ],
)
def test_what_nothing_enforces_is_refused(tmp_path: Path, path: str, body: dict[str, Any]) -> None:
    async def test(client: Client) -> None:
        made = await new_app(client)
        refused(await client("PATCH", f"{ADMIN}/apps/{made['app']['id']}/{path}", body), 400, "agent.action_invalid")

    run(tmp_path, test)


@pytest.mark.parametrize(("data", "status"), [({"allowed_org_ids": []}, 403), ({"allowed_org_ids": ["default"]}, 200)])
def test_a_list_of_organizations_holds_for_the_ledger(tmp_path: Path, data: dict[str, Any], status: int) -> None:
    async def test(client: Client) -> None:
        made = await new_app(client)
        await client("PATCH", f"{ADMIN}/apps/{made['app']['id']}/policy", {"data": data})
        headers = {"authorization": f"Bearer {made['token']}"}
        assert (await client("GET", f"{AGENT}/transactions?ledgerId=ledger_main", headers=headers)).status == status

    run(tmp_path, test)


def test_fields_that_an_app_may_not_see_are_not_in_the_answer_to_a_change_either(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        made = await new_app(client)
        app = f"{ADMIN}/apps/{made['app']['id']}"
        await client("PATCH", f"{app}/policy", {"data": {"allow_sensitive_fields": False}})
        await client("PATCH", f"{app}/auto-execute", {"writes": {"enabled": True, "expires_at": LATER}})
        body = {
            "action": "transaction.update",
            "payload": {"transactionId": "txn_1", "amount_home": 5},
            "execute": True,
        }
        headers = {"authorization": f"Bearer {made['token']}"}
        answer = await client("POST", f"{AGENT}/actions", body, headers=headers)
        assert answer.json()["data"]["status"] == "executed"
        assert "Vienna" not in str(answer.json())

    run(tmp_path, test)


def test_an_unknown_state_and_a_position_that_is_no_number_are_refused(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        answer = await client("GET", f"{ADMIN}/drafts?status=confirm")
        assert answer.status == 400
        assert answer.json()["message"].startswith("status: unknown value `confirm`; did you mean `confirmed`?")
        assert (await client("GET", f"{ADMIN}/audit/export?after_seq=x")).status == 400

    run(tmp_path, test)
