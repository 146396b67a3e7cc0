"""Idempotency: a request that is repeated happens once, and another request is not taken for it."""

from __future__ import annotations

import asyncio
from secrets import token_hex

from penstock.cli.verify.checks import expect
from penstock.cli.verify.kit import App, Kit, executed, writes_enabled
from penstock.cli.verify.profiles.writes.table import WRITES
from penstock.cli.verify.target import expect_data, expect_refused

__all__: list[str] = []

_CREATE = "transaction.create"
_AT_ONCE = 6
_REUSED = "A first result for another request hides that the second never happened."


async def _app(kit: Kit) -> App:
    return await kit.app(auto_execute=writes_enabled())


@WRITES.check("A repeated request happens once.", "Networks lose answers, and clients repeat requests.")
async def repeated_request(kit: Kit) -> None:
    app, payload, key = await _app(kit), kit.expense(), token_hex(8)
    for _ in range(3):
        expect_data(await app.act(_CREATE, payload, execute=True, idempotencyKey=key))
    found = await kit.titled(payload["title"])
    expect(len(found) == 1, "one transaction", found)


@WRITES.check("A repeated request gets the first result, marked as such.", "A client must know that nothing happened.")
async def replay_is_flagged(kit: Kit) -> None:
    app, payload, key = await _app(kit), kit.expense(), token_hex(8)
    first = executed(await app.act(_CREATE, payload, execute=True, idempotencyKey=key))
    answer = await app.act(_CREATE, payload, execute=True, idempotencyKey=key)
    data = expect_data(answer)
    expect(data.get("replayed") is True, "`replayed: true`", answer)
    expect(data.get("code") == "agent.idempotency_replay", "code agent.idempotency_replay", answer)
    expect(data.get("execution", {}).get("id") == first.get("id"), f"the execution {first.get('id')}", answer)


@WRITES.check("A key with another payload is a 422.", _REUSED)
async def key_with_other_payload(kit: Kit) -> None:
    app, key, other = await _app(kit), token_hex(8), kit.expense()
    executed(await app.act(_CREATE, kit.expense(), execute=True, idempotencyKey=key))
    expect_refused(await app.act(_CREATE, other, execute=True, idempotencyKey=key), 409, 422)
    expect(not await kit.titled(other["title"]), "no second transaction", other)


@WRITES.check("A key with another action is a 422.", _REUSED)
async def key_with_other_action(kit: Kit) -> None:
    app, key, target = await _app(kit), token_hex(8), await kit.transaction()
    executed(await app.act(_CREATE, kit.expense(), execute=True, idempotencyKey=key))
    payload = {"transactionId": target, "title": "other"}
    expect_refused(await app.act("transaction.update", payload, execute=True, idempotencyKey=key), 409, 422)


@WRITES.check("Requests at once with one key happen once.", "Two that arrive together are two, unless one waits.")
async def requests_at_once(kit: Kit) -> None:
    app, payload, key = await _app(kit), kit.expense(), token_hex(8)
    answers = await asyncio.gather(
        *(app.act(_CREATE, payload, execute=True, idempotencyKey=key) for _ in range(_AT_ONCE))
    )
    strange = [str(answer) for answer in answers if answer.status not in (200, 409)]
    expect(not strange, "200 or 409 for each", strange)
    found = await kit.titled(payload["title"])
    expect(len(found) == 1, "one transaction", found)


@WRITES.check("The same key of another app is another key.", "Apps do not know of each other's keys.")
async def keys_belong_to_apps(kit: Kit) -> None:
    key, first, second = token_hex(8), kit.expense(), kit.expense()
    executed(await (await _app(kit)).act(_CREATE, first, execute=True, idempotencyKey=key))
    executed(await (await _app(kit)).act(_CREATE, second, execute=True, idempotencyKey=key))
    expect(await kit.titled(second["title"]), "the second transaction", second)


@WRITES.check("A failure is not repeated as a success.", "A client that reads `executed` stops looking.")
async def failure_is_not_success(kit: Kit) -> None:
    app, key = await _app(kit), token_hex(8)
    payload = {"transactionId": "txn_missing", "title": "x"}
    for _ in range(2):
        answer = await app.act("transaction.update", payload, execute=True, idempotencyKey=key)
        execution = answer.data.get("execution")
        failed = isinstance(execution, dict) and execution.get("status") == "failed"
        expect(
            answer.is_enveloped_refusal or (not failed and answer.data.get("status") != "executed"),
            "a refusal in the envelope",
            answer,
        )


@WRITES.check("A key that cannot be one is refused.", "A key without end is a way to fill a disk.")
async def impossible_key(kit: Kit) -> None:
    app = await _app(kit)
    for key in ("x" * 10_000, 7, {"a": 1}):
        answer = await app.act(_CREATE, kit.expense(), execute=True, idempotencyKey=key)
        expect_refused(answer, 400, 422)
