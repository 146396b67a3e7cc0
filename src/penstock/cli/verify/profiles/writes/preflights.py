"""Preflights: what an agent looked at is what it may do, it alone, and once."""

from __future__ import annotations

import re
from secrets import token_hex

from penstock.cli.verify.checks import NotApplicable, expect
from penstock.cli.verify.kit import App, Kit, executed, high_risk_enabled
from penstock.cli.verify.profiles.writes.table import WRITES
from penstock.cli.verify.target import Json, expect_data, expect_refused

__all__: list[str] = []

_DELETE = "transaction.delete"
_HEX = re.compile(r"[0-9a-f]{64}")
_BOUND = "A preview protects only if its handle makes exactly the previewed call."


async def _handle(kit: Kit, app: App, transaction_id: str) -> str:
    found = expect_data(await app.preflight(_DELETE, {"transactionId": transaction_id})).get("preflightId")
    if not isinstance(found, str):
        raise NotApplicable("the server gives no handle for a preflight")
    return found


def _asked(**more: object) -> Json:
    return {"execute": True, "justification": "a duplicate", "idempotencyKey": token_hex(8), **more}


async def _still_there(kit: Kit, transaction_id: str) -> bool:
    app = await kit.shared_app()
    page = 1
    while True:
        answer = await app.transactions(page=str(page))
        if any(item.get("id") == transaction_id for item in answer.items):
            return True
        if not expect_data(answer).get("hasMore"):
            return False
        page += 1


@WRITES.check("A preflight changes nothing.", "Looking must be free.")
async def preflight_changes_nothing(kit: Kit) -> None:
    app, target = await kit.app(auto_execute=high_risk_enabled()), await kit.transaction()
    expect_data(await app.preflight(_DELETE, {"transactionId": target}))
    expect(await _still_there(kit, target), "the transaction, unchanged", target)


@WRITES.check("A preflight says how risky the action is and what it would touch.", "That is what it is for.")
async def preflight_shows_impact(kit: Kit) -> None:
    app = await kit.app()
    data = expect_data(await app.preflight(_DELETE, {"transactionId": await kit.transaction()}))
    expect(data.get("risk") in ("high", "critical"), "risk `high`", data)
    expect(isinstance(data.get("impact"), dict) and data["impact"], "an impact", data)
    expect(data.get("requiresConfirmation") is True, "`requiresConfirmation: true`", data)


@WRITES.check("The hash of a preflight is a SHA-256 in hexadecimal.", "A short hash can be forged.")
async def hash_is_strong(kit: Kit) -> None:
    app = await kit.app()
    found = expect_data(await app.preflight(_DELETE, {"transactionId": await kit.transaction()})).get("impactHash")
    expect(isinstance(found, str) and _HEX.fullmatch(found), "64 hexadecimal digits", found)


@WRITES.check("Different payloads have different hashes.", _BOUND)
async def hash_depends_on_payload(kit: Kit) -> None:
    app = await kit.app()
    seen = {
        str(expect_data(await app.preflight(_DELETE, {"transactionId": target})).get("impactHash"))
        for target in [await kit.transaction(), await kit.transaction()]
    }
    expect(len(seen) == 2, "two hashes", seen)  # noqa: PLR2004  # one for each


@WRITES.check("The hash of one action cannot execute another.", _BOUND)
async def hash_of_another_action(kit: Kit) -> None:
    app, first, second = (
        await kit.app(auto_execute=high_risk_enabled()),
        await kit.transaction(),
        await kit.transaction(),
    )
    seen = expect_data(await app.preflight(_DELETE, {"transactionId": first})).get("impactHash")
    answer = await app.act(_DELETE, {"transactionId": second}, **_asked(preflightHash=seen))
    denied = answer.data.get("autoExecuteDeniedCode") == "agent.preflight_mismatch"
    expect(denied or answer.is_enveloped_refusal, "a draft with agent.preflight_mismatch", answer)
    expect(await _still_there(kit, second), "the transaction, unchanged", answer)


@WRITES.check("A hash that was made up cannot execute anything.", _BOUND)
async def invented_hash(kit: Kit) -> None:
    app, target = await kit.app(auto_execute=high_risk_enabled()), await kit.transaction()
    answer = await app.act(_DELETE, {"transactionId": target}, **_asked(preflightHash="0" * 64))
    denied = answer.data.get("autoExecuteDeniedCode") == "agent.preflight_mismatch"
    expect(denied or answer.is_enveloped_refusal, "a draft with agent.preflight_mismatch", answer)


@WRITES.check("A handle stands for what was looked at.", "An agent need not send it all again.")
async def handle_executes(kit: Kit) -> None:
    app, target = await kit.app(auto_execute=high_risk_enabled()), await kit.transaction()
    handle = await _handle(kit, app, target)
    executed(await app.act(_DELETE, None, **_asked(preflightId=handle)))
    expect(not await _still_there(kit, target), "the transaction, deleted", target)


@WRITES.check("A handle works once.", "A handle that works twice is a licence, not a preview.")
async def handle_works_once(kit: Kit) -> None:
    app, target = await kit.app(auto_execute=high_risk_enabled()), await kit.transaction()
    handle = await _handle(kit, app, target)
    executed(await app.act(_DELETE, None, **_asked(preflightId=handle)))
    answer = await app.act(_DELETE, None, **_asked(preflightId=handle))
    expect_refused(answer, 400, 404, 409, codes=("agent.preflight_not_found",))


@WRITES.check("A handle of one key is unknown to another.", _BOUND)
async def handle_belongs_to_key(kit: Kit) -> None:
    app, target = await kit.app(auto_execute=high_risk_enabled()), await kit.transaction()
    handle = await _handle(kit, app, target)
    other = await kit.new_key(app)
    answer = await other.act(_DELETE, None, **_asked(preflightId=handle))
    expect_refused(answer, 400, 404, codes=("agent.preflight_not_found",))
    expect(await _still_there(kit, target), "the transaction, unchanged", answer)


@WRITES.check("A handle of one app is unknown to another.", _BOUND)
async def handle_belongs_to_app(kit: Kit) -> None:
    app, other = await kit.app(), await kit.app(auto_execute=high_risk_enabled())
    handle = await _handle(kit, app, await kit.transaction())
    answer = await other.act(_DELETE, None, **_asked(preflightId=handle))
    expect_refused(answer, 400, 404, codes=("agent.preflight_not_found",))


@WRITES.check("A handle for one action does not serve for another.", _BOUND)
async def handle_belongs_to_action(kit: Kit) -> None:
    app, target = await kit.app(auto_execute=high_risk_enabled()), await kit.transaction()
    handle = await _handle(kit, app, target)
    answer = await app.act("transaction.hard_delete", None, **_asked(preflightId=handle))
    expect_refused(answer, 400, 409, codes=("agent.preflight_mismatch",))
    expect(await _still_there(kit, target), "the transaction, unchanged", answer)


@WRITES.check("A handle for one payload does not serve for another.", _BOUND)
async def handle_belongs_to_payload(kit: Kit) -> None:
    app, first, second = (
        await kit.app(auto_execute=high_risk_enabled()),
        await kit.transaction(),
        await kit.transaction(),
    )
    handle = await _handle(kit, app, first)
    answer = await app.act(_DELETE, {"transactionId": second}, **_asked(preflightId=handle))
    execution = answer.data.get("execution")
    expect(not isinstance(execution, dict), "no execution", answer)
    expect(await _still_there(kit, second), "the transaction, unchanged", answer)


@WRITES.check("An unknown handle is `agent.preflight_not_found`.", "Clients act on the code.")
async def unknown_handle(kit: Kit) -> None:
    app = await kit.app(auto_execute=high_risk_enabled())
    answer = await app.act(_DELETE, None, **_asked(preflightId="pfl_unknown"))
    expect_refused(answer, 400, 404, codes=("agent.preflight_not_found",))


@WRITES.check("A preflight of an unknown action is refused.", "A typo must not look like a success.")
async def unknown_action_preflight(kit: Kit) -> None:
    answer = await (await kit.app()).preflight("transaction.vaporize", {})
    expect_refused(answer, 400, 404, codes=("agent.action_unknown",))


@WRITES.check("A preflight of a payload that does not fit is refused.", "An impact of nonsense is nonsense.")
async def invalid_preflight(kit: Kit) -> None:
    answer = await (await kit.app()).preflight(_DELETE, {"transactionId": 7})
    expect_refused(answer, 400, 422, codes=("agent.action_invalid", "common.validation"))
