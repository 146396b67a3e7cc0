"""Auto-execution: each gate alone keeps an action from being executed, and the agent learns which one it was."""

from __future__ import annotations

from secrets import token_hex

from penstock.cli.verify.checks import NotApplicable, expect
from penstock.cli.verify.kit import LEDGER, App, Kit, executed, high_risk_enabled, moment, writes_enabled
from penstock.cli.verify.profiles.writes.table import WRITES
from penstock.cli.verify.target import Answer, Json, expect_data

__all__: list[str] = []

_DELETE = "transaction.delete"
_ROWS_MAX = 150


def _expect_draft(answer: Answer, *codes: str) -> None:
    """Fail unless an answer is a draft that says why it was not executed."""
    data = expect_data(answer)
    expect(data.get("status") == "draft", "a draft", answer)
    expect(data.get("autoExecuteDeniedCode") in codes, f"autoExecuteDeniedCode {' or '.join(codes)}", answer)


def _is_executed(answer: Answer) -> bool:
    return answer.data.get("status") == "executed"


async def _preflighted(kit: Kit, app: App) -> tuple[Json, Json]:
    """Return the payload of a delete that may be executed, and what the call needs beside it."""
    payload: Json = {"transactionId": await kit.transaction()}
    seen = expect_data(await app.preflight(_DELETE, payload))
    return payload, {
        "execute": True,
        "justification": "a duplicate",
        "idempotencyKey": token_hex(8),
        "preflightHash": seen.get("impactHash"),
    }


@WRITES.check("Without a grant an action that asks for execution is a draft.", "Deny by default.")
async def auto_execute_is_off(kit: Kit) -> None:
    app = await kit.app()
    answer = await app.act("transaction.create", kit.expense(), execute=True)
    _expect_draft(answer, "agent.auto_execute_disabled")


@WRITES.check("With a grant a write is executed.", "Gates that never open prove nothing.")
async def granted_write_is_executed(kit: Kit) -> None:
    app, payload = await kit.app(auto_execute=writes_enabled()), kit.expense()
    executed(await app.act("transaction.create", payload, execute=True))
    expect(len(await kit.titled(payload["title"])) == 1, "one transaction", await kit.titled(payload["title"]))


@WRITES.check("A grant for other actions does not cover this one.", "A grant names what it is for.")
async def action_not_granted(kit: Kit) -> None:
    app = await kit.app(auto_execute=writes_enabled(actions=["transaction.update"]))
    _expect_draft(await app.act("transaction.create", kit.expense(), execute=True), "agent.auto_execute_denied")


@WRITES.check("A grant for no actions covers none.", "An empty list that means everything fails open.")
async def no_action_granted(kit: Kit) -> None:
    app = await kit.app(auto_execute=writes_enabled(actions=[]))
    answer = await app.act("transaction.create", kit.expense(), execute=True)
    _expect_draft(answer, "agent.auto_execute_denied", "agent.auto_execute_disabled")


@WRITES.check("A grant ends when it says.", "A grant for an hour that lasts forever is a grant forever.")
async def grant_ends(kit: Kit) -> None:
    answer = await kit.after_end(
        lambda seconds: kit.app(auto_execute=writes_enabled(seconds)),
        lambda app: app.act("transaction.create", kit.expense(), execute=True),
        _is_executed,
    )
    _expect_draft(answer, "agent.auto_execute_expired")


@WRITES.check("A grant without an end is not accepted.", "Standing grants are forgotten, and then found by others.")
async def grant_needs_an_end(kit: Kit) -> None:
    app = await kit.app()
    body = {"writes": {"enabled": True, "expires_at": None}}
    answer = await kit.admin.request("PATCH", f"/apps/{app.id}/auto-execute", body)
    if answer.is_success:
        tried = await app.act("transaction.create", kit.expense(), execute=True)
        expect(tried.data.get("status") == "draft", "a refusal of the grant, or a draft", tried)
    else:
        expect(answer.is_enveloped_refusal, "a refusal in the envelope", answer)


@WRITES.check("A grant that is switched off holds on the next request.", "Until then, the agent acts without approval.")
async def grant_is_withdrawn(kit: Kit) -> None:
    app = await kit.app(auto_execute=writes_enabled())
    executed(await app.act("transaction.create", kit.expense(), execute=True))
    await kit.set_auto_execute(app, {"writes": {"enabled": False}})
    _expect_draft(await app.act("transaction.create", kit.expense(), execute=True), "agent.auto_execute_disabled")


@WRITES.check("A grant for writes does not cover high risk.", "The dangerous half needs a grant of its own.")
async def high_risk_is_apart(kit: Kit) -> None:
    app = await kit.app(auto_execute=writes_enabled())
    payload, more = await _preflighted(kit, app)
    _expect_draft(await app.act(_DELETE, payload, **more), "agent.auto_execute_disabled")


@WRITES.check("High risk with everything it needs is executed.", "Gates that never open prove nothing.")
async def high_risk_is_executed(kit: Kit) -> None:
    app = await kit.app(auto_execute=high_risk_enabled())
    payload, more = await _preflighted(kit, app)
    executed(await app.act(_DELETE, payload, **more))


@WRITES.check("High risk without a justification is a draft.", "Who cannot say why should not act alone.")
async def justification_needed(kit: Kit) -> None:
    app = await kit.app(auto_execute=high_risk_enabled())
    payload, more = await _preflighted(kit, app)
    del more["justification"]
    _expect_draft(await app.act(_DELETE, payload, **more), "agent.action_invalid")


@WRITES.check("High risk without an idempotency key is a draft.", "A repeated request must not happen twice.")
async def idempotency_needed(kit: Kit) -> None:
    app = await kit.app(auto_execute=high_risk_enabled())
    payload, more = await _preflighted(kit, app)
    del more["idempotencyKey"]
    _expect_draft(await app.act(_DELETE, payload, **more), "agent.idempotency_required")


@WRITES.check("High risk without a preflight is a draft.", "Nobody should do what they have not looked at.")
async def preflight_needed(kit: Kit) -> None:
    app = await kit.app(auto_execute=high_risk_enabled())
    payload, more = await _preflighted(kit, app)
    del more["preflightHash"]
    _expect_draft(await app.act(_DELETE, payload, **more), "agent.preflight_required")


@WRITES.check("High risk after the end of its grant is a draft.", "A grant ends for the dangerous half too.")
async def high_risk_grant_ends(kit: Kit) -> None:
    async def delete(app: App) -> Answer:
        payload, more = await _preflighted(kit, app)
        return await app.act(_DELETE, payload, **more)

    answer = await kit.after_end(lambda seconds: kit.app(auto_execute=high_risk_enabled(seconds)), delete, _is_executed)
    _expect_draft(answer, "agent.auto_execute_expired")


@WRITES.check("An action of high risk that the grant does not name is a draft.", "A grant names what it is for.")
async def high_risk_action_not_granted(kit: Kit) -> None:
    app = await kit.app(auto_execute=high_risk_enabled(actions=["transaction.hard_delete"]))
    payload, more = await _preflighted(kit, app)
    _expect_draft(await app.act(_DELETE, payload, **more), "agent.auto_execute_denied")


@WRITES.check("An export has no more rows than the grant allows.", "A limit must be enforced, not only stored.")
async def export_is_limited(kit: Kit) -> None:
    app = await kit.app()
    wanted = high_risk_enabled(max_export_rows=3, require_preflight=False)
    found = (await kit.set_auto_execute(app, wanted)).get("high_risk", {}).get("max_export_rows")
    if not isinstance(found, int) or found > _ROWS_MAX:
        raise NotApplicable(f"the server does not limit exports to {_ROWS_MAX} rows or fewer")
    for _ in range(found + 1):
        await kit.transaction()
    payload: Json = {"ledgerId": LEDGER, "limit": 5_000}
    seen = expect_data(await app.preflight("transactions.export_csv", payload)).get("impactHash")
    more = {"execute": True, "justification": "a report", "idempotencyKey": token_hex(8), "preflightHash": seen}
    answer = await app.act("transactions.export_csv", payload, **more)
    data = expect_data(answer)
    if data.get("status") == "draft":
        raise NotApplicable("the server does not execute exports without a person")
    execution = data.get("execution", {})
    exported = (execution.get("result") or {}).get("export", {})
    rows = exported.get("rowCount")
    expect(execution.get("status") != "success" or (isinstance(rows, int) and rows <= found), f"≤ {found} rows", rows)
    lines = len(str(exported.get("csv", "")).splitlines()) - 1
    expect(lines <= found, f"a CSV of at most {found} rows", lines)


@WRITES.check("A grant reaches no further than the app it was made for.", "Another app is another risk.")
async def grant_belongs_to_app(kit: Kit) -> None:
    await kit.app(auto_execute=writes_enabled())
    other = await kit.app()
    _expect_draft(await other.act("transaction.create", kit.expense(), execute=True), "agent.auto_execute_disabled")


@WRITES.check("An end in the past is not a grant.", "A mistake in a date must not open anything.")
async def grant_in_the_past(kit: Kit) -> None:
    app = await kit.app()
    body = {"writes": {"enabled": True, "expires_at": moment(-3_600)}}
    await kit.admin.request("PATCH", f"/apps/{app.id}/auto-execute", body)
    tried = await app.act("transaction.create", kit.expense(), execute=True)
    expect(tried.data.get("status") == "draft", "a draft", tried)
