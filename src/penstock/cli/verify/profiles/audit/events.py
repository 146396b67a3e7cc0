"""One record per decision: allowed, refused and failed, for every caller.

Each check makes an app of its own and looks for the records of that app, so that nothing else is counted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from penstock.cli.verify.checks import CheckFailed, expect
from penstock.cli.verify.kit import App, Kit, writes_enabled
from penstock.cli.verify.profiles.audit.table import AUDIT
from penstock.cli.verify.target import Answer, Json, expect_data

__all__: list[str] = []

_UNSEEN = "What leaves no record did not happen, for an investigator."
_ATTACK = "Refusals are how an attack begins; a log without them begins too late."


def _of(app: App, *statuses: str) -> Callable[[Json], bool]:
    """Return whether an event is about a key of an app, with one of these statuses."""
    return lambda event: app.key_id in (event.get("key_id"), "") and event.get("status") in statuses


async def _expect_event(kit: Kit, holds: Callable[[Json], bool], what: str, *, most: int = 1) -> Json:
    found = await kit.events(holds)
    counted = sum(int(event.get("count") or 1) for event in found)
    expect(len(found) >= 1 and counted <= most, f"{what}: one event", found or "none")
    return found[0]


async def _reads(app: App, kit: Kit) -> Answer:
    return await app.agent.request("GET", "/ledgers")


async def _preflights(app: App, kit: Kit) -> Answer:
    return await app.preflight("transaction.delete", {"transactionId": await kit.transaction()})


async def _proposes(app: App, kit: Kit) -> Answer:
    return await app.act("transaction.create", kit.expense())


async def _executes(app: App, kit: Kit) -> Answer:
    await kit.set_auto_execute(app, writes_enabled())
    return await app.act("transaction.create", kit.expense(), execute=True)


_ALLOWED: dict[str, tuple[str, Callable[[App, Kit], Awaitable[Answer]]]] = {
    "read": ("Reading", _reads),
    "preflight": ("A preflight", _preflights),
    "draft": ("A draft", _proposes),
    "execution": ("An execution", _executes),
}


async def _has_event(name: str, kit: Kit) -> None:
    what, act = _ALLOWED[name]
    app = await kit.app()
    expect_data(await act(app, kit))
    found = await kit.events(_of(app, "success"))
    expect(found, f"an event with status `success` for {what.lower()}", found or "none")


for _name, (_what, _act) in _ALLOWED.items():
    AUDIT.add(f"allowed-{_name}", f"{_what} leaves an event.", _UNSEEN, partial(_has_event, _name))


async def _no_scope(app: App, kit: Kit) -> Answer:
    return await app.act("transaction.create", kit.expense())


async def _no_policy(app: App, kit: Kit) -> Answer:
    await kit.set_policy(app, {"data": {"allowed_ledger_ids": []}})
    return await app.transactions()


async def _unknown_action(app: App, kit: Kit) -> Answer:
    return await app.act("transaction.vaporize", {})


async def _malformed(app: App, kit: Kit) -> Answer:
    return await app.agent.request("POST", "/actions", content=b'{"action": ')


async def _unknown_route(app: App, kit: Kit) -> Answer:
    return await app.agent.request("GET", "/nothing-here")


async def _unknown_draft(app: App, kit: Kit) -> Answer:
    return await app.draft("drf_unknown")


async def _outdated(app: App, kit: Kit) -> Answer:
    payload = {"transactionId": await kit.transaction()}
    return await app.act("transaction.delete", payload, stateWitnessHash="0" * 64)


_READS = ("ledger.read", "transaction.read")
_REFUSED: dict[str, tuple[str, int, tuple[str, ...], Callable[[App, Kit], Awaitable[Answer]]]] = {
    "scope": ("A call without the scope", 403, _READS, _no_scope),
    "policy": ("A call that the policy forbids", 403, _READS, _no_policy),
    "unknown-action": ("A call of an unknown action", 400, (*_READS, "transaction.write"), _unknown_action),
    "malformed-body": ("A body that is not JSON", 400, _READS, _malformed),
    "unknown-route": ("A request to an address that is not there", 404, _READS, _unknown_route),
    "unknown-draft": ("Asking for a draft that is not there", 404, _READS, _unknown_draft),
    "state-witness": ("A call on an outdated state", 409, (*_READS, "transaction.delete"), _outdated),
}


async def _has_refusal(name: str, kit: Kit) -> None:
    what, _, scopes, act = _REFUSED[name]
    app = await kit.app(scopes=scopes)
    answer = await act(app, kit)
    if not answer.is_enveloped_refusal:
        raise CheckFailed(f"a refusal of {what.lower()}", str(answer))
    await _expect_event(kit, _of(app, "denied", "failed"), f"{what} ({answer.status})")


for _name, (_what, _status, _scopes, _refuse) in _REFUSED.items():
    AUDIT.add(
        f"refused-{_name}", f"{_what} ({_status}) leaves exactly one event.", _ATTACK, partial(_has_refusal, _name)
    )


@AUDIT.check("A request without a token (401) leaves an event.", _ATTACK)
async def refused_stranger(kit: Kit) -> None:
    before = {event.get("id") for event in await kit.audit()}
    answer = await kit.agent(None).request_once("GET", "/ledgers")
    expect(answer.status in (401, 429), "401", str(answer))

    def holds(event: Json) -> bool:
        return event.get("status") == "denied" and not event.get("key_id") and event.get("id") not in before

    found = await kit.events(holds, seconds_max=90.0)
    expect(found, "an event of a stranger with status `denied`", found or "none")


@AUDIT.check("A request with a revoked key (401) leaves an event.", _ATTACK)
async def refused_revoked_key(kit: Kit) -> None:
    app = await kit.app()
    expect_data(await kit.revoke_key(app.key_id))
    before = {event.get("id") for event in await kit.audit()}
    answer = await app.agent.request("GET", "/transactions", query={"ledgerId": "ledger_main"})
    expect(answer.status == 401, "401", str(answer))  # noqa: PLR2004  # RFC 9110

    def holds(event: Json) -> bool:
        return event.get("status") == "denied" and event.get("id") not in before

    found = await kit.events(holds, seconds_max=90.0)
    expect(found, "an event with status `denied`", found or "none")


@AUDIT.check("An action that is not executed for want of a grant leaves an event.", _UNSEEN)
async def refused_auto_execution(kit: Kit) -> None:
    app = await kit.app()
    expect_data(await app.act("transaction.create", kit.expense(), execute=True))
    found = await kit.events(lambda event: event.get("key_id") == app.key_id)
    expect(found, "an event", found or "none")


async def _approves(kit: Kit, draft: str) -> Answer:
    return await kit.approve(draft)


async def _rejects(kit: Kit, draft: str) -> Answer:
    return await kit.reject(draft)


async def _decision(act: Callable[[Kit, str], Awaitable[Answer]], kit: Kit) -> None:
    app = await kit.app()
    draft = await app.proposed("transaction.create", kit.expense())
    expect_data(await act(kit, draft))
    found = await kit.events(lambda event: event.get("draft_id") == draft and "app" not in str(event.get("action")))
    expect(found, f"an event about the draft {draft}", found or "none")


AUDIT.add("approval", "An approval leaves an event with the id of the draft.", _UNSEEN, partial(_decision, _approves))
AUDIT.add("rejection", "A rejection leaves an event with the id of the draft.", _UNSEEN, partial(_decision, _rejects))


async def _policy(kit: Kit, app: App) -> object:
    await kit.set_policy(app, {"data": {"max_days": 30}})
    return None


async def _grant(kit: Kit, app: App) -> object:
    return await kit.set_auto_execute(app, writes_enabled())


async def _key(kit: Kit, app: App) -> object:
    return await kit.new_key(app)


async def _revoke(kit: Kit, app: App) -> object:
    return await kit.revoke_app(app)


async def _nothing(kit: Kit, app: App) -> object:
    return None


_CHANGES: dict[str, tuple[str, str, Callable[[Kit, App], Awaitable[object]]]] = {
    "app-create": ("Making an app", "create", _nothing),
    "app-revoke": ("Revoking an app", "revoke", _revoke),
    "app-policy": ("Changing the policy of an app", "policy", _policy),
    "app-auto-execute": ("Changing what an app may execute", "auto_execute", _grant),
    "key-create": ("Making a key", "create", _key),
}


async def _change(name: str, kit: Kit) -> None:
    what, verb, act = _CHANGES[name]
    app = await kit.app()
    await act(kit, app)

    def holds(event: Json) -> bool:
        return event.get("app_id") == app.id and verb in str(event.get("action"))

    found = await kit.events(holds)
    expect(found, f"an event for {what.lower()}, with the app", found or "none")


for _name, (_what, _verb, _changing) in _CHANGES.items():
    AUDIT.add(_name, f"{_what} leaves an event.", "Rights that change without a record.", partial(_change, _name))
