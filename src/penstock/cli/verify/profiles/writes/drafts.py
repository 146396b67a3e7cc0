"""Drafts: what an agent wants to do becomes one, and nothing happens until somebody agrees."""

from __future__ import annotations

from penstock.cli.verify.checks import expect
from penstock.cli.verify.kit import LEDGER, Kit, writes_enabled
from penstock.cli.verify.profiles.writes.table import WRITES
from penstock.cli.verify.target import expect_data, expect_refused

__all__: list[str] = []

_FIELDS = ("id", "status", "action_type", "created_at")


@WRITES.check("An action is a draft unless it asks for more.", "An agent that acts by default cannot be stopped.")
async def draft_by_default(kit: Kit) -> None:
    app, payload = await kit.app(auto_execute=writes_enabled()), kit.expense()
    await app.proposed("transaction.create", payload)
    expect(not await kit.titled(payload["title"]), "no transaction yet", await kit.titled(payload["title"]))


@WRITES.check("A draft says what it is: id, status, action, time.", "An approver decides on what is shown.")
async def draft_is_described(kit: Kit) -> None:
    app = await kit.app()
    draft = expect_data(await app.draft(await app.proposed("transaction.create", kit.expense()))).get("draft")
    missing = [name for name in _FIELDS if not isinstance(draft, dict) or not draft.get(name)]
    expect(not missing, f"a draft with {_FIELDS}", draft)
    expect(isinstance(draft, dict) and draft["status"] == "draft", "status `draft`", draft)
    expect(isinstance(draft, dict) and draft["action_type"] == "transaction.create", "its action", draft)


@WRITES.check("A draft has no execution.", "What was not agreed to has not happened.")
async def draft_has_no_execution(kit: Kit) -> None:
    app = await kit.app()
    data = expect_data(await app.draft(await app.proposed("transaction.create", kit.expense())))
    expect(data.get("execution") is None, "`execution: null`", data)


@WRITES.check("A draft keeps the payload that was sent.", "What is approved must be what was proposed.")
async def draft_keeps_payload(kit: Kit) -> None:
    app, payload = await kit.app(), kit.expense()
    draft = (await kit.draft(await app.proposed("transaction.create", payload))).get("draft", {})
    expect(draft.get("payload") == payload, str(payload), draft.get("payload"))


@WRITES.check("A draft keeps the justification.", "An approver wants to know why.")
async def draft_keeps_justification(kit: Kit) -> None:
    app = await kit.app()
    made = await app.proposed("transaction.create", kit.expense(), justification="the month is closed")
    draft = (await kit.draft(made)).get("draft", {})
    expect(draft.get("justification") == "the month is closed", "the justification", draft)


@WRITES.check("A draft says what was needed and how risky it was.", "Rules change; the decision must be explainable.")
async def draft_keeps_rules(kit: Kit) -> None:
    app = await kit.app()
    draft = (await kit.draft(await app.proposed("transaction.create", kit.expense()))).get("draft", {})
    rules = draft.get("policy_snapshot")
    expect(isinstance(rules, dict) and rules.get("risk") and rules.get("requiredScopes"), "a policy snapshot", draft)


@WRITES.check("A draft expires.", "Nobody should approve what everybody has forgotten.")
async def draft_expires(kit: Kit) -> None:
    app = await kit.app()
    draft = expect_data(await app.draft(await app.proposed("transaction.create", kit.expense()))).get("draft", {})
    expect(isinstance(draft.get("expires_at"), str), "an instant in `expires_at`", draft)


@WRITES.check("`forceDraft` wins over `execute`.", "A caller who asks for caution gets it.")
async def force_draft_wins(kit: Kit) -> None:
    app, payload = await kit.app(auto_execute=writes_enabled()), kit.expense()
    await app.proposed("transaction.create", payload, execute=True, forceDraft=True)
    expect(not await kit.titled(payload["title"]), "no transaction", await kit.titled(payload["title"]))


@WRITES.check("An action that does not exist is `agent.action_unknown`.", "A typo must not look like a success.")
async def unknown_action(kit: Kit) -> None:
    app = await kit.app()
    answer = await app.act("transaction.vaporize", {"transactionId": "txn_1"})
    expect_refused(answer, 400, 404, codes=("agent.action_unknown",))


@WRITES.check("A payload that does not fit is refused when it is proposed.", "Approvers are not validators.")
async def invalid_payload(kit: Kit) -> None:
    app = await kit.app()
    for payload in ({}, {"ledgerId": LEDGER, "kind": 7}, {"ledgerId": LEDGER, "amount_home": "many"}):
        answer = await app.act("transaction.create", payload)
        expect_refused(answer, 400, 422, codes=("agent.action_invalid", "common.validation"))


@WRITES.check("A change of something that does not exist is not executed.", "Nothing can be changed that is not there.")
async def missing_target(kit: Kit) -> None:
    app = await kit.app(auto_execute=writes_enabled())
    answer = await app.act("transaction.update", {"transactionId": "txn_missing", "title": "x"}, execute=True)
    execution = answer.data.get("execution")
    succeeded = isinstance(execution, dict) and execution.get("status") == "success"
    expect(not succeeded, "a refusal, a draft or a failure", answer)


@WRITES.check("A draft that does not exist is a 404 with `agent.draft_not_found`.", "Clients act on the code.")
async def unknown_draft(kit: Kit) -> None:
    expect_refused(await (await kit.app()).draft("drf_unknown"), 404, codes=("agent.draft_not_found",))


@WRITES.check("Drafts are listed by app and status.", "Approvers need a list of what waits.")
async def drafts_are_listed(kit: Kit) -> None:
    app = await kit.app()
    kept, ended = [await app.proposed("transaction.create", kit.expense()) for _ in range(2)]
    expect_data(await kit.reject(ended))
    answer = await kit.admin.request("GET", f"/drafts?appId={app.id}&status=draft")
    expect_data(answer)
    expect([item.get("id") for item in answer.items] == [kept], f"the draft {kept} alone", answer)


@WRITES.check("A write of an agent over MCP waits for a person too.", "The same call must not have two outcomes.")
async def mcp_write_is_held(kit: Kit) -> None:
    app, payload = await kit.app(), kit.expense()
    client = await kit.mcp(app.token)
    answer = await client.call("tools/call", {"name": await client.tool("transaction.create"), "arguments": payload})
    expect("result" in answer or "error" in answer, "an answer", answer)
    expect(not await kit.titled(payload["title"]), "no transaction yet", answer)
