"""What a record holds, and what it must not hold."""

from __future__ import annotations

import re
from secrets import token_hex

from penstock.cli.verify.checks import expect
from penstock.cli.verify.kit import Kit, writes_enabled
from penstock.cli.verify.profiles.audit.table import AUDIT
from penstock.cli.verify.target import expect_data

__all__: list[str] = []

_FIELDS = (
    "id",
    "app_id",
    "key_id",
    "actor_user_id",
    "performed_by_user_id",
    "action",
    "status",
    "code",
    "request_id",
    "draft_id",
    "execution_id",
    "ip",
    "user_agent",
    "details",
    "created_at",
)
_STATUSES = ("success", "failed", "denied")
_CODE = re.compile(r"(?:agent|common)\.[a-z_]+")


@AUDIT.check("An event has every field of the profile.", "Tools that read the log expect them.")
async def fields(kit: Kit) -> None:
    await kit.app()
    found = await kit.audit()
    expect(found, "events", "none")
    missing = {name for event in found for name in _FIELDS if name not in event}
    expect(not missing, f"events with {_FIELDS}", sorted(missing))


@AUDIT.check("An event is a success, a failure or a denial.", "A fourth status is one that nobody looks for.")
async def statuses(kit: Kit) -> None:
    strange = [event for event in await kit.audit() if event.get("status") not in _STATUSES]
    expect(not strange, f"a status of {_STATUSES}", strange[:1])


@AUDIT.check("Codes in events are stable names, never messages.", "Rules and alerts match codes; messages change.")
async def stable_codes(kit: Kit) -> None:
    app = await kit.app(auto_execute=writes_enabled())
    await app.act("transaction.update", {"transactionId": "txn_missing", "title": "x"}, execute=True)
    await app.act("transaction.vaporize", {})
    await kit.events(lambda event: event.get("key_id") == app.key_id, count=2)
    codes = {event.get("code") for event in await kit.audit()} - {None}
    strange = [code for code in codes if not isinstance(code, str) or not _CODE.fullmatch(code)]
    expect(not strange, "codes like agent.policy_denied", strange)


@AUDIT.check("A denied event says why.", "A refusal without a reason cannot be investigated.")
async def denied_has_code(kit: Kit) -> None:
    app = await kit.app(scopes=("ledger.read",))
    await app.transactions()
    found = await kit.events(lambda event: event.get("key_id") == app.key_id and event.get("status") == "denied")
    expect(found and all(event.get("code") for event in found), "a code", found or "none")


@AUDIT.check("The request id of an action is in its event.", "Without it nobody finds the request in other logs.")
async def request_id(kit: Kit) -> None:
    app, wanted = await kit.app(), f"req-{token_hex(8)}"
    expect_data(await app.act("transaction.create", kit.expense(), requestId=wanted))
    found = await kit.events(lambda event: event.get("request_id") == wanted)
    expect(found, f"an event with request_id {wanted}", found or "none")


@AUDIT.check("The request id of a refused action is in its event too.", "Refusals are investigated more often.")
async def request_id_of_refusal(kit: Kit) -> None:
    app, wanted = await kit.app(scopes=("ledger.read",)), f"req-{token_hex(8)}"
    await app.act("transaction.create", kit.expense(), requestId=wanted)
    found = await kit.events(lambda event: event.get("request_id") == wanted)
    expect(found, f"an event with request_id {wanted}", found or "none")


@AUDIT.check("Every event of a call has a request id.", "One request, one thread to pull.")
async def always_a_request_id(kit: Kit) -> None:
    app = await kit.app()
    expect_data(await app.agent.request("GET", "/ledgers"))
    expect_data(await app.act("transaction.create", kit.expense()))
    found = await kit.events(lambda event: event.get("key_id") == app.key_id, count=2)
    missing = [event for event in found if not event.get("request_id")]
    expect(found and not missing, "a request id", missing[:1] or "no events")


@AUDIT.check("An event says whose key it was, and of which app.", "An action without an actor is nobody's.")
async def actor(kit: Kit) -> None:
    app = await kit.app()
    expect_data(await app.act("transaction.create", kit.expense()))
    found = await kit.events(lambda event: event.get("key_id") == app.key_id)
    expect(found and all(event.get("app_id") == app.id for event in found), f"the app {app.id}", found or "none")


@AUDIT.check("An event has the address that the call came from.", "That is how a stolen key is noticed.")
async def address(kit: Kit) -> None:
    app = await kit.app()
    expect_data(await app.act("transaction.create", kit.expense()))
    found = await kit.events(lambda event: event.get("key_id") == app.key_id)
    expect(found and all(event.get("ip") for event in found), "an address", found or "none")


@AUDIT.check("A forged address is not the one in the event.", "Otherwise an attacker writes the log.")
async def forged_address_is_not_recorded(kit: Kit) -> None:
    app, forged = await kit.app(), "203.0.113.77"
    await app.agent.request("GET", "/ledgers", headers={"x-forwarded-for": forged, "x-real-ip": forged})
    found = await kit.events(lambda event: event.get("key_id") == app.key_id)
    expect(
        found and all(event.get("ip") != forged for event in found), "the address of the connection", found or "none"
    )


@AUDIT.check("No token is in the log.", "A reader of the log must not be able to act.")
async def no_token(kit: Kit) -> None:
    """Use every credential, then read everything that shows records: each answer is searched as it arrives."""
    app = await kit.app()
    draft = await app.proposed("transaction.create", kit.expense())
    await app.agent.request("GET", f"/drafts/{app.token}")
    await kit.admin_with(app.token).request("GET", "/audit")
    expect_data(await kit.approve(draft))
    await kit.events(lambda event: event.get("key_id") == app.key_id, count=2)
    for path in ("/audit", "/audit/export", "/apps", f"/apps/{app.id}", f"/drafts/{draft}", "/drafts"):
        answer = await kit.admin.request("GET", path)
        for token in kit.traffic.credentials.known:
            expect(token not in answer.text, "no token", f"GET {path} shows one")


@AUDIT.check("No payload is in the log.", "Payloads hold secrets and personal data; a digest is enough.")
async def no_payload(kit: Kit) -> None:
    app, secret = await kit.app(), f"planted-{token_hex(12)}"
    expect_data(await app.act("transaction.create", kit.expense(notes=secret), justification=secret))
    await app.act(secret, {"a": secret})
    await kit.events(lambda event: event.get("key_id") == app.key_id, count=2)
    leaked = [event for event in await kit.audit() if secret in repr(event)]
    expect(not leaked, "no planted secret", leaked[:1])


@AUDIT.check("Ids of events are unique.", "Two events with one id count as one.")
async def unique_ids(kit: Kit) -> None:
    await kit.app()
    ids = [event.get("id") for event in await kit.audit()]
    expect(ids and len(ids) == len(set(ids)), "different ids", len(ids) - len(set(ids)))


@AUDIT.check("Events are listed newest first.", "A reader wants to see what has just happened.")
async def newest_first(kit: Kit) -> None:
    app = await kit.app()
    await kit.events(lambda event: event.get("app_id") == app.id)
    times = [str(event.get("created_at")) for event in await kit.audit()]
    expect(times == sorted(times, reverse=True), "descending times", times[:5])
