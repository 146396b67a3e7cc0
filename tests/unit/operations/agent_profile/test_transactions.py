"""The demo ledger through a real gate: what is stored, what an app may see of it, and how exports are bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.app.gate import local_owner, open_gate
from penstock.app.penstock import Penstock
from penstock.base.errors import PenstockError
from penstock.operations.builtin import profile_operations
from penstock.operations.catalogue.capability import Reply
from penstock.operations.gate.context import Principal, Request, ServerParts
from penstock.operations.gate.pipeline import Gate, RefusedCall
from penstock.operations.permissions.apps import app_group

EXPENSE = {"ledgerId": "ledger_main", "kind": "expense", "title": "Lunch", "amount_home": 10, "date": "2026-02-13"}


class Ledger:
    """Calls the operations of a gate, as the owner or as the agent of an app."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate

    async def __call__(self, operation: str, arguments: dict[str, Any] | None = None, *, app: str | None = None) -> Any:
        principal = local_owner()
        if app is not None:
            groups = frozenset({app_group(app)})
            principal = Principal(id="key:a", tenant="default", kind="local", scopes=frozenset({"*"}), groups=groups)
        request = Request(
            operation=operation, arguments=arguments or {}, principal=principal, surface="sdk", request_id="r"
        )
        outcome = await self.gate.call(request)
        if isinstance(outcome, RefusedCall):
            raise outcome.error
        assert isinstance(outcome.reply, Reply)
        return msgspec.to_builtins(outcome.reply.value)

    async def refusal(self, operation: str, arguments: dict[str, Any], *, app: str | None = None) -> str:
        with pytest.raises(PenstockError) as caught:
            await self(operation, arguments, app=app)
        return caught.value.code

    async def app(self, policy: dict[str, Any], grants: dict[str, Any] | None = None) -> str:
        app_id = str((await self("app.create", {"name": "a", "scopes": ["ledger.read"]}))["id"])
        await self("app.policy_update", {"app_id": app_id, "policy": policy})
        if grants is not None:
            await self("app.auto_execute_update", {"app_id": app_id, "auto_execute": grants})
        return app_id


def run(folder: Path, test: Callable[[Ledger], Awaitable[None]]) -> None:
    async def body() -> None:
        parts = ServerParts(operations=profile_operations(fixtures=True))
        async with Penstock.open(folder / "penstock.db") as penstock, open_gate(penstock, server=parts) as gate:
            await test(Ledger(gate))

    asyncio.run(body())


def titles(page: dict[str, Any]) -> list[str]:
    return [item["title"] for item in page["items"]]


def test_transactions_are_created_changed_and_deleted(tmp_path: Path) -> None:
    async def test(ledger: Ledger) -> None:
        made = (await ledger("transaction.create", EXPENSE))["transaction"]
        change = {"transactionId": made["id"], "title": "Dinner"}
        changed = (await ledger("transaction.update", change))["transaction"]
        assert (changed["title"], changed["amount_home"]) == ("Dinner", 10)
        assert titles(await ledger("transaction.list", {"ledgerId": "ledger_main"})) == ["Dinner", "Train to Vienna"]
        await ledger("transaction.delete", {"transactionId": made["id"]})
        await ledger("transaction.hard_delete", {"transactionId": "txn_1"})
        assert titles(await ledger("transaction.list", {"ledgerId": "ledger_main"})) == []
        assert await ledger.refusal("transaction.update", change) == "TRANSACTION_NOT_FOUND"

    run(tmp_path, test)


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    async def test(ledger: Ledger) -> None:
        for wrong in ({"kind": "gift"}, {"amount_home": 1e13}, {"date": "soon"}, {"currency_home": "usd"}, {"x": 1}):
            assert await ledger.refusal("transaction.create", {**EXPENSE, **wrong}) == "INVALID_ARGUMENTS"
        elsewhere = {**EXPENSE, "ledgerId": "ledger_elsewhere"}
        assert await ledger.refusal("transaction.create", elsewhere) == "POLICY_DENIED"

    run(tmp_path, test)


def test_pages_say_whether_there_is_more(tmp_path: Path) -> None:
    async def test(ledger: Ledger) -> None:
        for number in range(4):
            await ledger("transaction.create", {**EXPENSE, "title": f"t{number}", "date": f"2026-03-0{number + 1}"})
        page = await ledger("transaction.list", {"ledgerId": "ledger_main", "page": 2, "pageSize": 2})
        assert (titles(page), page["total"], page["hasMore"]) == (["t1", "t0"], 5, True)
        last = await ledger("transaction.list", {"ledgerId": "ledger_main", "page": 3, "pageSize": 2})
        assert (titles(last), last["hasMore"]) == (["Train to Vienna"], False)
        some = {"ledgerId": "ledger_main", "startDate": "2026-03-02", "endDate": "2026-03-03"}
        assert titles(await ledger("transaction.list", some)) == ["t2", "t1"]

    run(tmp_path, test)


@pytest.mark.parametrize("allowed", [[], ["ledger_elsewhere"]])
def test_a_list_that_does_not_name_the_ledger_allows_nothing_in_it(tmp_path: Path, allowed: list[str]) -> None:
    async def test(ledger: Ledger) -> None:
        app = await ledger.app({"data": {"allowed_ledger_ids": allowed}})
        assert (await ledger("ledger.list", app=app)) == {"items": []}
        for operation, arguments in (
            ("transaction.list", {"ledgerId": "ledger_main"}),
            ("transaction.create", EXPENSE),
            ("transaction.update", {"transactionId": "txn_1", "title": "x"}),
            ("transaction.delete", {"transactionId": "txn_1"}),
            ("transaction.hard_delete", {"transactionId": "txn_1"}),
            ("transactions.export_csv", {"ledgerId": "ledger_main"}),
        ):
            assert await ledger.refusal(operation, arguments, app=app) == "POLICY_DENIED", operation

    run(tmp_path, test)


def test_the_key_of_an_app_that_is_gone_sees_nothing(tmp_path: Path) -> None:
    async def test(ledger: Ledger) -> None:
        assert (await ledger("ledger.list", app="app_gone")) == {"items": []}

    run(tmp_path, test)


def test_hidden_fields_are_hidden_in_lists_and_exports(tmp_path: Path) -> None:
    async def test(ledger: Ledger) -> None:
        await ledger("transaction.create", {**EXPENSE, "notes": "with Ada"})
        app = await ledger.app({"data": {"allow_sensitive_fields": False}})
        listed = await ledger("transaction.list", {"ledgerId": "ledger_main"}, app=app)
        exported = await ledger("transactions.export_csv", {"ledgerId": "ledger_main"}, app=app)
        assert "Lunch" not in str(listed) + str(exported)
        assert "Ada" not in str(listed) + str(exported)

    run(tmp_path, test)


def test_more_days_than_allowed_are_refused_and_the_last_ones_are_the_default(tmp_path: Path) -> None:
    async def test(ledger: Ledger) -> None:
        app = await ledger.app({"data": {"max_days": 7}})
        old = {"ledgerId": "ledger_main", "startDate": "2020-01-01", "endDate": "2020-02-01"}
        assert await ledger.refusal("transaction.list", old, app=app) == "POLICY_DENIED"
        week = {"ledgerId": "ledger_main", "startDate": "2026-01-12", "endDate": "2026-01-17"}
        assert titles(await ledger("transaction.list", week, app=app)) == ["Train to Vienna"]
        await ledger("transaction.create", {**EXPENSE, "date": "2020-01-01"})
        assert "Lunch" not in titles(await ledger("transaction.list", {"ledgerId": "ledger_main"}, app=app))

    run(tmp_path, test)


def test_an_export_has_no_more_rows_than_the_grant_allows_and_no_formulas(tmp_path: Path) -> None:
    async def test(ledger: Ledger) -> None:
        for number in range(4):
            await ledger("transaction.create", {**EXPENSE, "title": f"=cmd({number})"})
        app = await ledger.app({}, {"high_risk": {"max_export_rows": 2}})
        found = (await ledger("transactions.export_csv", {"ledgerId": "ledger_main"}, app=app))["export"]
        assert (found["rowCount"], found["truncated"], len(found["csv"].splitlines())) == (2, True, 3)
        assert ",=cmd" not in found["csv"]
        assert "'=cmd" in found["csv"]

    run(tmp_path, test)
