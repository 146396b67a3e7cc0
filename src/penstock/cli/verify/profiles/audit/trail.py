"""The trail as a whole: nobody changes it over the wire, and a change in the file would be noticed."""

from __future__ import annotations

from itertools import pairwise

from penstock.cli.verify.checks import CheckFailed, NotApplicable, expect
from penstock.cli.verify.kit import Kit
from penstock.cli.verify.profiles.audit.table import AUDIT
from penstock.cli.verify.target import Json, expect_data, expect_refused
from penstock.governance.audit.redactions import RedactionLedger

__all__: list[str] = []

_UNVERIFIABLE = "the server offers no chain of records under /audit/export, so that it cannot be verified from outside"


async def _chain(kit: Kit) -> list[Json]:
    """Return the newest records of the chain, oldest first."""
    for _ in range(3):
        app = await kit.app()
    await kit.events(lambda event: event.get("app_id") == app.id)
    answer = await kit.admin.request("GET", "/audit/export")
    if not answer.is_success or not answer.items:
        raise NotApplicable(_UNVERIFIABLE)
    return answer.items


def _broken_at(records: list[Json]) -> int | None:
    """Return where a chain does not hold: a number is left out, or a record does not name the hash before it."""
    for before, record in pairwise(records):
        if record.get("previous_hash") != before.get("hash") or record.get("seq") != int(before.get("seq", 0)) + 1:
            return int(record.get("seq", 0))
    return None


@AUDIT.check("Records are a chain: each names the hash of the one before.", "Then none can be left out unnoticed.")
async def records_are_a_chain(kit: Kit) -> None:
    records = await _chain(kit)
    expect(_broken_at(records) is None, "an unbroken chain", f"broken at record {_broken_at(records)}")


@AUDIT.check("A record that is left out is noticed.", "Deleting the one record that matters is the oldest trick.")
async def deletion_is_noticed(kit: Kit) -> None:
    records = await _chain(kit)
    middle = len(records) // 2
    expect(_broken_at([*records[:middle], *records[middle + 1 :]]) is not None, "a broken chain", "an unbroken one")


@AUDIT.check("Records in another order are noticed.", "The order tells who knew what when.")
async def reordering_is_noticed(kit: Kit) -> None:
    records = await _chain(kit)
    expect(_broken_at(records[::-1]) is not None, "a broken chain", "an unbroken one")


@AUDIT.check(
    "A field of a record is erased only if a later record says so, and shows no value.",
    "Anybody can compute what stands for an erased field, and could write another name beside it.",
)
async def redaction_is_on_record(kit: Kit) -> None:
    ledger = RedactionLedger()
    for record in await _chain(kit):
        try:
            ledger.add(int(record.get("seq", 0)), {name: value for name, value in record.items() if value is not None})
        except ValueError as error:
            raise CheckFailed(
                "a record as it was made, or redacted on record", {**record, "error": str(error)}
            ) from error
    loose = [item.seq for item in ledger.redactions() if item.recorded_in is None]
    expect(not loose, "a record of every redaction", f"none for the records {loose[:3]}")


@AUDIT.check("The server verifies its own trail.", "An administrator must be able to ask at any time.")
async def trail_is_intact(kit: Kit) -> None:
    await kit.app()
    answer = await kit.admin.request("GET", "/audit/verify")
    if answer.status in (404, 405):
        raise NotApplicable("the server offers no verification under /audit/verify")
    data = expect_data(answer)
    expect(data.get("intact") is True and data.get("records", 0) > 0, "`intact: true`", data)


@AUDIT.check("Every record that was once shown stays.", "A record that disappears was never evidence.")
async def records_stay(kit: Kit) -> None:
    app = await kit.app()
    expect_data(await app.act("transaction.create", kit.expense()))
    await kit.events(lambda event: event.get("key_id") == app.key_id)
    before = {event.get("id") for event in await kit.audit() if event.get("app_id") == app.id}
    expect_data(await kit.revoke_app(app))
    after = {event.get("id") for event in await kit.audit()}
    expect(before and before <= after, "every record of the app", sorted(map(str, before - after)) or "none before")


@AUDIT.check("The trail cannot be changed over the wire.", "A log that can be edited is a note pad.")
async def trail_is_read_only(kit: Kit) -> None:
    found = await kit.audit()
    some = str(found[0].get("id")) if found else "aud_1"
    for method, path in (
        ("DELETE", "/audit"),
        ("DELETE", f"/audit/{some}"),
        ("PATCH", f"/audit/{some}"),
        ("PUT", "/audit"),
    ):
        answer = await kit.admin.request(method, path, {} if method != "DELETE" else None)
        expect_refused(answer, 404, 405)


@AUDIT.check("An agent cannot read the trail.", "It shows what others do.")
async def trail_is_not_for_agents(kit: Kit) -> None:
    expect_refused(await kit.admin_with((await kit.app()).token).request("GET", "/audit"), 401, 403)


@AUDIT.check("The trail of one tenant does not show another's.", "Tenants share a server and nothing else.")
async def trails_are_apart(kit: Kit) -> None:
    foreign = await kit.app(org="verify-other")
    expect_data(await foreign.agent.request("GET", "/ledgers"))
    found = [event for event in await kit.audit() if event.get("key_id") == foreign.key_id]
    if any("app" not in str(event.get("action")) and "key" not in str(event.get("action")) for event in found):
        raise CheckFailed("no event of the other tenant's agent", found[:1])
