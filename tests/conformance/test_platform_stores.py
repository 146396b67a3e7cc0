"""What every platform store does: the contract of the `Database` port, one fact at a time."""

import asyncio
import random
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.base import limits
from penstock.base.errors import Conflict, Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.governance.audit.chain import GENESIS_HASH, ChainBroken, ChainSeal, ChainVerified, verify_chain
from penstock.governance.audit.leaves import entry_fields, leaf_hash
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.platform import (
    ANY_ETAG,
    AuditEntry,
    AuditHold,
    AuditQuery,
    CallRecord,
    Claimed,
    DeliveryRow,
    Finished,
    IdempotencyClaim,
    InFlight,
    KeyNotReplaced,
    KeyReplaced,
    KeyRow,
    ResourceChanged,
    ResourceDeleted,
    ResourcePut,
    ResourceRow,
)
from penstock.runtime.ports.topics import TOPIC_OF_KIND, Topic
from penstock.runtime.tables.api_keys import list_keys, put_key, read_key, replace_key, touch_keys
from penstock.runtime.tables.audit.records import list_audit, list_audit_tenants
from penstock.runtime.tables.audit.removal import forget_audit, list_removed_audit, redact_audit
from penstock.runtime.tables.call_records import append_audit, forget_calls, release_call
from penstock.runtime.tables.deliveries import (
    add_deliveries,
    change_delivery,
    claim_delivery,
    forget_deliveries,
    list_deliveries,
    list_due_deliveries,
    read_delivery,
    read_next_delivery_at,
    save_delivery,
)
from penstock.runtime.tables.resources import (
    delete_resource,
    list_all_resources,
    list_resources,
    put_resource,
    put_resources,
    read_mark,
    read_resource,
    set_mark,
)
from tests.conformance.platform_stores import (
    AT,
    KEY,
    SEAL,
    chain_of,
    claim,
    claimed,
    completed,
    delivery,
    entry,
    key_row,
    on_every_platform_store,
    platform_contents,
    resource,
    told,
    verified,
)

AWKWARD: JsonObject = {
    "text": 'Müller & Söhne \u0000 \U0001f600 "quoted"',
    "": [],
    "numbers": [0, -1, 2**53 + 1, 2**70, 0.1, 1e300, -0.5],
    "nested": {"a": [None, True, {"b": {}}]},
    "half": "\ud800",
}

# --- keys ----------------------------------------------------------------------------------------


@on_every_platform_store
async def test_a_key_is_read_back_as_it_was_written(store: Database) -> None:
    full = key_row(
        "bbbbbbbbbbbb",
        name="Müllers Rechner",
        scopes=("workflow:*", "audit:read"),
        created_by="key:aaaaaaaaaaaa",
        expires_at=AT + 1,
        revoked_at=AT + 2,
        last_used_at=AT + 3,
        toolset="workflows",
        replaces="aaaaaaaaaaaa",
    )
    await put_key(store, key_row())
    await put_key(store, full)
    assert await read_key(store, "aaaaaaaaaaaa") == key_row()
    assert await read_key(store, "bbbbbbbbbbbb") == full
    assert await read_key(store, "cccccccccccc") is None
    assert await read_key(store, "\ud800") is None


@on_every_platform_store
async def test_a_key_is_changed_and_the_others_are_not(store: Database) -> None:
    await put_key(store, key_row())
    await put_key(store, key_row("bbbbbbbbbbbb"))
    changed = key_row(name="other", scopes=(), expires_at=AT + 5, revoked_at=AT + 6)
    await put_key(store, changed)
    assert await read_key(store, "aaaaaaaaaaaa") == changed
    assert await read_key(store, "bbbbbbbbbbbb") == key_row("bbbbbbbbbbbb")


@on_every_platform_store
async def test_whoever_writes_an_old_key_back_undoes_neither_a_revocation_nor_a_use(store: Database) -> None:
    await put_key(store, key_row())
    await touch_keys(store, {"aaaaaaaaaaaa": AT + 7})
    await put_key(store, key_row(revoked_at=AT + 9))
    await put_key(store, key_row(name="renamed"))
    assert await read_key(store, "aaaaaaaaaaaa") == key_row(name="renamed", revoked_at=AT + 9, last_used_at=AT + 7)
    await put_key(store, key_row(revoked_at=AT + 11, last_used_at=AT + 8))
    assert await read_key(store, "aaaaaaaaaaaa") == key_row(revoked_at=AT + 9, last_used_at=AT + 8)


@on_every_platform_store
async def test_the_last_use_of_keys_is_noted_and_never_goes_back(store: Database) -> None:
    await put_key(store, key_row())
    await put_key(store, key_row("bbbbbbbbbbbb", last_used_at=AT + 5))
    await touch_keys(store, {})
    await touch_keys(store, {"aaaaaaaaaaaa": AT + 1, "bbbbbbbbbbbb": AT + 4, "unknown": AT + 9})
    assert await read_key(store, "aaaaaaaaaaaa") == key_row(last_used_at=AT + 1)
    assert await read_key(store, "bbbbbbbbbbbb") == key_row("bbbbbbbbbbbb", last_used_at=AT + 5)
    assert await read_key(store, "unknown") is None
    await touch_keys(store, {"aaaaaaaaaaaa": AT + 3, "bbbbbbbbbbbb": AT + 6})
    assert [key.last_used_at for key in (await list_keys(store, tenant=None, limit=9)).rows] == [AT + 6, AT + 3]


async def listed_keys(store: Database, *, tenant: str | None, limit: int) -> list[KeyRow]:
    found: list[KeyRow] = []
    cursor: str | None = None
    while True:
        page = await list_keys(store, tenant=tenant, limit=limit, cursor=cursor)
        assert 0 < len(page.rows) <= limit
        found += page.rows
        if page.next_cursor is None:
            return found
        cursor = page.next_cursor


@on_every_platform_store
async def test_keys_are_listed_newest_first_in_pages_of_any_size(store: Database) -> None:
    made = [key_row(f"key{number:09}", tenant=f"t{number % 2}", created_at=AT + number // 3) for number in range(10)]
    for key in random.Random(5).sample(made, len(made)):
        await put_key(store, key)
    newest_first = made[::-1]
    for limit in (1, 2, 3, 10, 50, limits.PLATFORM_PAGE_MAX + 1):
        assert await listed_keys(store, tenant=None, limit=limit) == newest_first
        assert await listed_keys(store, tenant="t1", limit=limit) == [key for key in newest_first if key.tenant == "t1"]
    assert (await list_keys(store, tenant="nobody", limit=5)).rows == ()
    some = (made[7].key_id, "nobody's", made[2].key_id, made[2].key_id)
    assert (await list_keys(store, tenant=None, limit=5, ids=some)).rows == (made[7], made[2])
    assert (await list_keys(store, tenant="t1", limit=5, ids=some)).rows == (made[7],)
    assert (await list_keys(store, tenant=None, limit=5, ids=())).rows == ()


@on_every_platform_store
async def test_keys_that_come_meanwhile_neither_repeat_nor_hide_others(store: Database) -> None:
    for number in range(4):
        await put_key(store, key_row(f"key{number}", created_at=AT + number))
    first = await list_keys(store, tenant="acme", limit=2)
    await put_key(store, key_row("newer", created_at=AT + 9))
    await put_key(store, key_row("older", created_at=AT - 9))
    await put_key(store, key_row("key2", created_at=AT + 2, name="changed"))
    second = await list_keys(store, tenant="acme", limit=9, cursor=first.next_cursor)
    assert [key.key_id for key in first.rows + second.rows] == ["key3", "key2", "key1", "key0", "older"]


# --- calls ---------------------------------------------------------------------------------------


@on_every_platform_store
async def test_the_first_call_with_a_key_goes_on_and_the_next_hears_of_it(store: Database) -> None:
    assert await claimed(store, claim()) == Claimed()
    again = claim(now=AT + 5, digest="digest-2")
    assert await claimed(store, again) == InFlight("digest-1", AT + 60_000)
    answer: JsonObject = {"status": 201, "body": AWKWARD}
    await completed(store, claim(), answer)
    assert await claimed(store, again) == Finished("digest-1", answer)
    assert await claimed(store, again) == Finished("digest-1", answer)


@on_every_platform_store
async def test_a_call_is_known_by_tenant_principal_operation_and_key_together(store: Database) -> None:
    assert await claimed(store, claim()) == Claimed()
    for change in ({"tenant": "other"}, {"principal": "other"}, {"operation": "other"}, {"key": "other"}):
        assert await claimed(store, replace(claim(), **change)) == Claimed()
    assert await claimed(store, claim()) == InFlight("digest-1", AT + 60_000)


@on_every_platform_store
async def test_a_released_key_can_be_used_again(store: Database) -> None:
    await claimed(store, claim())
    await release_call(store, claim())
    assert await claimed(store, claim(digest="digest-2")) == Claimed()
    assert await claimed(store, claim()) == InFlight("digest-2", AT + 60_000)


@on_every_platform_store
async def test_an_answer_is_not_released(store: Database) -> None:
    await claimed(store, claim())
    await completed(store, claim(), {"status": 200})
    await release_call(store, claim())
    assert await claimed(store, claim()) == Finished("digest-1", {"status": 200})


@on_every_platform_store
async def test_an_answer_is_kept_until_its_time_and_not_longer(store: Database) -> None:
    first = claim()
    await claimed(store, first)
    await completed(store, first, {"status": 200})
    assert await claimed(store, claim(now=first.keep_until)) == Finished("digest-1", {"status": 200})
    assert await claimed(store, claim(now=first.keep_until + 1, digest="digest-2")) == Claimed()


@on_every_platform_store
async def test_a_call_whose_process_died_can_be_made_again_after_its_time(store: Database) -> None:
    first = claim()
    await claimed(store, first)
    assert await claimed(store, claim(now=first.in_flight_until)) == InFlight("digest-1", first.in_flight_until)
    second = claim(now=first.in_flight_until + 1, digest="digest-2")
    assert await claimed(store, second) == Claimed()
    # The first was not dead but slow: what it says now concerns a claim that it no longer has.
    await completed(store, first, {"by": "first"})
    await release_call(store, first)
    assert await claimed(store, second) == InFlight("digest-2", second.in_flight_until)
    await completed(store, second, {"by": "second"})
    await completed(store, first, {"by": "first"})
    await release_call(store, first)
    assert await claimed(store, second) == Finished("digest-2", {"by": "second"})


@on_every_platform_store
async def test_a_slow_call_that_was_forgotten_still_leaves_its_answer(store: Database) -> None:
    first = claim()
    await claimed(store, first)
    assert await forget_calls(store, now=first.in_flight_until + 1, limit=10) == 0
    assert await forget_calls(store, now=first.in_flight_until + 1 + limits.IDEMPOTENCY_UNANSWERED_MS, limit=10) == 1
    await completed(store, first, {"by": "first"})
    assert await claimed(store, claim(now=first.in_flight_until + 2)) == Finished("digest-1", {"by": "first"})


@on_every_platform_store
async def test_what_is_past_its_time_is_forgotten_in_pieces(store: Database) -> None:
    for number in range(5):
        one = claim(f"key-{number}", now=AT + number)
        await claimed(store, one)
        if number % 2:
            await completed(store, one, {"number": number})
    answers_over = AT + 86_400_004
    # Claims without an answer say that a process died: they are known for a day longer.
    assert await forget_calls(store, now=AT + 60_005, limit=10) == 0
    assert await forget_calls(store, now=answers_over, limit=1) == 1
    assert await forget_calls(store, now=answers_over, limit=10) == 1
    assert await forget_calls(store, now=answers_over, limit=10) == 0
    assert await claimed(store, claim("key-4", now=AT + 5)) == InFlight("digest-1", AT + 60_004)
    assert await forget_calls(store, now=AT + 200_000_000, limit=10) == 3


def made(one: IdempotencyClaim, answer: str = "made") -> CallRecord:
    return told(one, {"value": answer})


@on_every_platform_store
async def test_a_change_and_its_answer_are_kept_together(store: Database) -> None:
    names = ("key", "put", "deleted", "replaced")
    key, put, deleted, replaced = (claim(name) for name in names)
    for one in (key, put, deleted, replaced):
        assert await claimed(store, one) == Claimed()
    await put_key(store, key_row(), call=made(key))
    await put_resource(store, resource(), expected_etag=None, call=made(put))
    await delete_resource(store, "acme", "schema", "refund", expected_etag=ANY_ETAG, call=made(deleted))
    successor = key_row("bbbbbbbbbbbb", replaces="aaaaaaaaaaaa")
    assert await replace_key(store, key_row(revoked_at=AT), successor, call=made(replaced)) == KeyReplaced()
    for name in names:
        assert await claimed(store, claim(name, now=AT + 1)) == Finished("digest-1", {"value": "made"})


@on_every_platform_store
async def test_a_change_that_is_not_made_keeps_no_answer(store: Database) -> None:
    await put_resource(store, resource(), expected_etag=None)
    await claimed(store, claim())
    given = made(claim())
    assert isinstance(await put_resource(store, resource(), expected_etag=None, call=given), ResourceChanged)
    gone = await delete_resource(store, "acme", "schema", "nothing", expected_etag=ANY_ETAG, call=given)
    assert isinstance(gone, ResourceChanged)
    assert await replace_key(store, key_row(), key_row("bbbbbbbbbbbb"), call=given) == KeyNotReplaced(None)
    assert isinstance(await claimed(store, claim(now=AT + 1)), InFlight)


@on_every_platform_store
async def test_a_call_that_lost_its_claim_makes_no_change(store: Database) -> None:
    slow = claim()
    await claimed(store, slow)
    faster = claim(now=slow.in_flight_until + 1)
    assert await claimed(store, faster) == Claimed()
    for answered in (False, True):
        changes = (
            put_key(store, key_row(), call=made(slow)),
            put_resource(store, resource(), expected_etag=None, call=made(slow)),
        )
        for change in changes:
            with pytest.raises(Conflict) as refused:
                await change
            assert refused.value.code == "IDEMPOTENCY_IN_FLIGHT"
        if not answered:
            await completed(store, faster, {"value": "faster"})
    assert await read_key(store, "aaaaaaaaaaaa") is None
    assert await read_resource(store, "acme", "schema", "refund") is None


@on_every_platform_store
async def test_a_key_is_replaced_once(store: Database) -> None:
    await put_key(store, key_row())
    ended = key_row(revoked_at=AT + 1)
    successors = [key_row(name * 12, replaces="aaaaaaaaaaaa") for name in "bcdef"]
    outcomes = await asyncio.gather(*(replace_key(store, ended, successor) for successor in successors))
    assert outcomes.count(KeyReplaced()) == 1
    made = successors[outcomes.index(KeyReplaced())].key_id
    assert set(outcomes) == {KeyReplaced(), KeyNotReplaced(made)}
    assert {row.key_id for row in (await list_keys(store, tenant="acme", limit=10)).rows} == {"aaaaaaaaaaaa", made}
    await put_key(store, key_row("gggggggggggg", revoked_at=AT))
    late = key_row("hhhhhhhhhhhh", replaces="gggggggggggg")
    assert await replace_key(store, key_row("gggggggggggg"), late) == KeyNotReplaced(None)


@on_every_platform_store
async def test_of_many_calls_at_once_one_goes_on(store: Database) -> None:
    claims = [claim(digest=f"digest-{number}") for number in range(30)]
    outcomes = await asyncio.gather(*(claimed(store, one) for one in claims))
    assert outcomes.count(Claimed()) == 1
    winner = claims[outcomes.index(Claimed())]
    others = [outcome for outcome in outcomes if outcome != Claimed()]
    assert set(others) == {InFlight(winner.digest, winner.in_flight_until)}


# --- audit ---------------------------------------------------------------------------------------


@on_every_platform_store
async def test_entries_become_a_chain_for_each_tenant(store: Database) -> None:
    await append_audit(store, [entry(0), entry(1, tenant="other"), entry(2)], seal=SEAL)
    await append_audit(store, [entry(3, tenant="other")], seal=SEAL)
    await append_audit(store, [], seal=SEAL)
    chain = await chain_of(store)
    assert [record.seq for record in chain] == [1, 2]
    assert [record.entry for record in chain] == [entry(0), entry(2)]
    assert chain[0].previous_hash == GENESIS_HASH
    assert chain[1].previous_hash == chain[0].hash == SEAL(GENESIS_HASH, 1, entry(0))
    assert await verified(store) == ChainVerified(2, 2, chain[1].hash)
    assert [record.entry for record in await chain_of(store, "other")] == [
        entry(1, tenant="other"),
        entry(3, tenant="other"),
    ]
    assert await list_audit_tenants(store) == ("acme", "other")
    assert await chain_of(store, "nobody") == ()


@on_every_platform_store
async def test_every_field_of_an_entry_is_kept(store: Database) -> None:
    bare = AuditEntry(at=0, tenant="acme", principal="", surface="", operation="", outcome="failed")
    full = entry(
        outcome="refused",
        code="SCOPE_MISSING",
        subject="wf/Müller",
        request_id="req-1",
        arguments_digest="cd" * 32,
        count=17,
        details=AWKWARD,
    )
    await append_audit(store, [bare, full], seal=SEAL)
    assert [record.entry for record in await chain_of(store)] == [bare, full]
    assert isinstance(await verified(store), ChainVerified)


@on_every_platform_store
async def test_many_appends_at_once_give_one_unbroken_chain(store: Database) -> None:
    appends = [[entry(number * 10 + index) for index in range(number % 4 + 1)] for number in range(60)]
    appends.append([entry(1_000 + number) for number in range(300)])
    await asyncio.gather(*(append_audit(store, entries, seal=SEAL) for entries in appends))
    count = sum(map(len, appends))
    outcome = await verified(store)
    assert isinstance(outcome, ChainVerified)
    assert (outcome.count, outcome.last_seq) == (count, count)
    order = [record.entry.details["number"] for record in await chain_of(store)]
    for entries in appends:  # those of one call stay together
        first = order.index(entries[0].details["number"])
        assert order[first : first + len(entries)] == [one.details["number"] for one in entries]


@on_every_platform_store
async def test_an_entry_that_cannot_be_sealed_keeps_out_what_came_with_it(store: Database) -> None:
    class RefusesTheThird(ChainSeal, frozen=True):
        def __call__(self, previous_hash: str, seq: int, entry: Any) -> str:
            if seq == 3:
                raise ValueError("no seal for this")
            return SEAL(previous_hash, seq, entry)

    await append_audit(store, [entry(0)], seal=SEAL)
    with pytest.raises(ValueError, match="no seal for this"):
        await append_audit(store, [entry(1), entry(2), entry(3, tenant="other")], seal=RefusesTheThird(KEY))
    assert [record.entry for record in await chain_of(store)] == [entry(0)]
    assert await list_audit_tenants(store) == ("acme",)
    with pytest.raises(ValueError, match="nan is not"):
        await append_audit(store, [entry(1, details={"share": float("nan")})], seal=SEAL)
    await append_audit(store, [entry(1)], seal=SEAL)
    assert isinstance(await verified(store), ChainVerified)


@on_every_platform_store
async def test_an_append_goes_on_without_being_waited_for(store: Database) -> None:
    appends = [append_audit(store, [entry(number)], seal=SEAL) for number in range(5)]
    await appends[-1]
    assert [record.entry for record in await chain_of(store)] == [entry(number) for number in range(5)]


async def audited(store: Database, **query: Any) -> list[JsonValue]:
    page = await list_audit(store, AuditQuery(tenant="acme", **query))
    return [record.entry.details["number"] for record in page.records]


@on_every_platform_store
async def test_records_are_found_by_everything_that_is_asked_for(store: Database) -> None:
    entries = [
        entry(0),
        entry(1, operation="key.revoke"),
        entry(2, principal="key:bbbbbbbbbbbb", outcome="refused"),
        entry(3, subject="r_0", outcome="failed"),
        entry(4, subject=None),
        entry(5, tenant="other"),
    ]
    await append_audit(store, entries, seal=SEAL)
    assert await audited(store) == [4, 3, 2, 1, 0]
    assert await audited(store, oldest_first=True) == [0, 1, 2, 3, 4]
    assert await audited(store, operation="key.revoke") == [1]
    assert await audited(store, principal="key:bbbbbbbbbbbb") == [2]
    assert await audited(store, subject="r_0") == [3, 0]
    assert await audited(store, subject="r_0", oldest_first=True) == [0, 3]
    assert await audited(store, subject="r_0", outcome="failed") == [3]
    assert await audited(store, outcome="refused") == [2]
    assert await audited(store, outcome="allowed") == [4, 1, 0]
    assert await audited(store, outcome="refused", oldest_first=True, after_seq=1) == [2]
    assert await audited(store, since=AT + 1, until=AT + 4) == [3, 2]
    assert await audited(store, after_seq=1, before_seq=4) == [2, 1]
    assert await audited(store, after_seq=1, before_seq=5, outcome="allowed") == [1]
    assert await audited(store, after_seq=2**70) == []
    assert await audited(store, since=-(2**70), until=2**70) == [4, 3, 2, 1, 0]


@on_every_platform_store
async def test_a_page_of_records_says_that_there_are_more(store: Database) -> None:
    await append_audit(store, [entry(number) for number in range(5)], seal=SEAL)
    first = await list_audit(store, AuditQuery(tenant="acme", limit=2))
    assert ([record.seq for record in first.records], first.has_more) == ([5, 4], True)
    await append_audit(store, [entry(9)], seal=SEAL)
    rest = await list_audit(store, AuditQuery(tenant="acme", limit=3, before_seq=4))
    assert ([record.seq for record in rest.records], rest.has_more) == ([3, 2, 1], False)
    with pytest.raises(Rejected):
        await list_audit(store, AuditQuery(tenant="acme", limit=0))


@on_every_platform_store
async def test_what_is_left_of_a_chain_verifies_and_goes_on(store: Database) -> None:
    await append_audit(store, [entry(number) for number in range(5)], seal=SEAL)
    await append_audit(store, [entry(7, tenant="other")], seal=SEAL)
    before = await chain_of(store)
    assert await forget_audit(store, tenant="acme", before_seq=4, seal=SEAL) == 3
    assert await forget_audit(store, tenant="acme", before_seq=4, seal=SEAL) == 0
    assert await chain_of(store) == before[3:]
    assert await forget_audit(store, tenant="acme", before_seq=1_000, seal=SEAL) == 1
    assert await forget_audit(store, tenant="nobody", before_seq=1_000, seal=SEAL) == 0
    await append_audit(store, [entry(8)], seal=SEAL)
    chain = await chain_of(store)
    assert [record.seq for record in chain] == [5, 6]
    outcome = verify_chain(KEY, chain, expected_previous=before[3].hash)
    assert outcome == ChainVerified(2, 6, chain[-1].hash)
    assert len(await chain_of(store, "other")) == 1


@on_every_platform_store
async def test_what_is_held_is_not_removed_and_the_chain_still_verifies(store: Database) -> None:
    entries = [entry(number, subject=f"s{number % 3}", salt=f"{number:032x}") for number in range(9)]
    await append_audit(store, entries, seal=SEAL)
    before = await chain_of(store)
    by_subject = AuditHold(hold_id="h1", reason="court", subject="s1")
    by_time = AuditHold(hold_id="h2", reason="court", since=entries[5].at, until=entries[6].at)
    holds = (by_subject, by_time)
    unheld = await list_audit(store, AuditQuery(tenant="acme", not_held_by=holds, oldest_first=True))
    assert [record.seq for record in unheld.records] == [1, 3, 4, 9]
    assert await forget_audit(store, tenant="acme", before_seq=9, seal=SEAL, holds=holds) == 3
    assert await forget_audit(store, tenant="acme", before_seq=9, seal=SEAL, holds=holds) == 0
    chain = await chain_of(store)
    assert [record.seq for record in chain] == [2, 5, 6, 7, 8, 9]
    removed = await list_removed_audit(store, "acme", limit=100)
    assert all(SEAL.holds_removed("acme", stretch) for stretch in removed)
    assert [(stretch.first_seq, stretch.last_seq) for stretch in removed][:1] == [(1, 1)]
    kept = {
        seq: stretch.leaves[32 * number : 32 * number + 32]
        for stretch in removed
        for number, seq in enumerate(range(stretch.first_seq, stretch.last_seq + 1))
    }
    assert kept == {seq: leaf_hash(entry_fields(before[seq - 1].entry), seq) for seq in (1, 3, 4)}
    gaps = {stretch.first_seq: stretch for stretch in removed}
    found = verify_chain(KEY, chain, expected_previous=before[0].hash, expected_seq=2, removed=gaps)
    assert found == ChainVerified(6, 9, chain[-1].hash)
    assert isinstance(verify_chain(KEY, chain, expected_previous=before[0].hash, expected_seq=2), ChainBroken)
    assert await list_removed_audit(store, "acme", after_seq=4, limit=100) == ()
    everything = AuditHold(hold_id="h3", reason="court")
    assert await forget_audit(store, tenant="acme", before_seq=9, seal=SEAL, holds=(everything,)) == 0


@on_every_platform_store
async def test_personal_data_is_erased_and_the_chain_still_verifies(store: Database) -> None:
    given = entry(1, salt="5a" * 16, remote="192.0.2.7", client="studio/1", acting_for=("person:ada",))
    await append_audit(store, [given, entry(2, salt="5b" * 16), entry(3)], seal=SEAL)
    before = await chain_of(store)
    held = AuditHold(hold_id="h1", reason="court", principal=given.principal)
    erase = partial(partial(redact_audit, store), tenant="acme", names=("principal", "remote", "acting_for"))
    assert await erase(seqs=(1, 2, 3), holds=(held,)) == 0
    call = CallRecord(entry=entry(4), seal=SEAL)
    assert await erase(seqs=(1, 3, 7), call=call) == 1, "a record without a salt stays as it is"
    assert call.stored
    assert await erase(seqs=(1,)) == 0
    chain = await chain_of(store)
    assert [record.hash for record in chain[:3]] == [record.hash for record in before]
    erased = chain[0].entry
    assert (erased.principal, erased.remote, erased.acting_for, erased.salt) == ("erased", None, None, None)
    assert (erased.client, erased.subject) == ("studio/1", given.subject)
    assert erased.redacted is not None
    assert set(erased.redacted["commitments"]) == {"principal", "remote", "acting_for"}
    assert isinstance(await verified(store), ChainVerified)
    assert await redact_audit(store, tenant="acme", seqs=(1,), names=("client", "subject")) == 1
    again = await chain_of(store)
    assert (again[0].entry.client, again[0].entry.subject) == (None, None)
    assert again[0].entry.redacted is not None
    assert again[0].entry.redacted["salts"] == {}
    assert isinstance(await verified(store), ChainVerified)


# --- resources -----------------------------------------------------------------------------------


@on_every_platform_store
async def test_a_resource_is_read_back_as_it_was_written(store: Database) -> None:
    awkward = resource("Ünïcode/§", body=AWKWARD, updated_by=None)
    assert await put_resource(store, resource(), expected_etag=None) == ResourcePut(created=True)
    assert await put_resource(store, awkward, expected_etag=ANY_ETAG) == ResourcePut(created=True)
    assert await read_resource(store, "acme", "schema", "refund") == resource()
    assert await read_resource(store, "acme", "schema", "Ünïcode/§") == awkward
    assert await read_resource(store, "acme", "model", "refund") is None
    assert await read_resource(store, "other", "schema", "refund") is None
    assert await read_resource(store, "acme", "schema", "refun") is None


@on_every_platform_store
async def test_resources_that_are_stored_at_once_come_with_an_entry_for_each(store: Database) -> None:
    await put_resource(store, resource(), expected_etag=None)
    given = CallRecord(entry=entry(0), seal=SEAL)
    given.each([("refund", {"number": 1}), ("other", {"number": 2})])
    await put_resources(store, [resource(etag="etag-2"), resource("other")], call=given)
    assert await read_resource(store, "acme", "schema", "refund") == resource(etag="etag-2")
    assert await read_resource(store, "acme", "schema", "other") == resource("other")
    written = [(record.seq, record.entry.subject, record.entry.details["number"]) for record in await chain_of(store)]
    assert written == [(1, "refund", 1), (2, "other", 2)]
    assert given.stored
    half = chr(0xD800)
    with pytest.raises(Rejected, match="TEXT_NOT_UNICODE"):
        await put_resources(store, [resource("third"), resource(half)])
    assert await read_resource(store, "acme", "schema", "third") is None


@on_every_platform_store
async def test_a_resource_is_stored_only_over_the_etag_that_is_expected(store: Database) -> None:
    second = resource(body={"type": "string"}, etag="etag-2", created_at=AT + 5, updated_at=AT + 5, updated_by="me")
    assert await put_resource(store, second, expected_etag="etag-1") == ResourceChanged(None)
    await put_resource(store, resource(), expected_etag=None)
    assert await put_resource(store, second, expected_etag=None) == ResourceChanged("etag-1")
    assert await put_resource(store, second, expected_etag="etag-0") == ResourceChanged("etag-1")
    assert await read_resource(store, "acme", "schema", "refund") == resource()
    assert await put_resource(store, second, expected_etag="etag-1") == ResourcePut(created=False)
    assert await read_resource(store, "acme", "schema", "refund") == replace(second, created_at=AT)
    assert await put_resource(store, resource(), expected_etag=ANY_ETAG) == ResourcePut(created=False)
    assert await read_resource(store, "acme", "schema", "refund") == resource()


@on_every_platform_store
async def test_a_resource_is_deleted_only_with_the_etag_that_is_expected(store: Database) -> None:
    assert await delete_resource(store, "acme", "schema", "refund", expected_etag=ANY_ETAG) == ResourceChanged(None)
    await put_resource(store, resource(), expected_etag=None)
    await put_resource(store, resource(tenant="other"), expected_etag=None)
    stale = await delete_resource(store, "acme", "schema", "refund", expected_etag="etag-0")
    assert stale == ResourceChanged("etag-1")
    assert await delete_resource(store, "acme", "schema", "refund", expected_etag="etag-1") == ResourceDeleted()
    assert await read_resource(store, "acme", "schema", "refund") is None
    assert await delete_resource(store, "other", "schema", "refund", expected_etag=ANY_ETAG) == ResourceDeleted()
    assert await put_resource(store, resource(), expected_etag=None) == ResourcePut(created=True)


@on_every_platform_store
async def test_of_many_changes_to_one_etag_one_happens(store: Database) -> None:
    for expected in (None, "etag-1"):
        made = [resource(body={"by": number}, etag="etag-1" if expected is None else "etag-2") for number in range(20)]
        outcomes = await asyncio.gather(*(put_resource(store, one, expected_etag=expected) for one in made))
        won = [number for number, outcome in enumerate(outcomes) if isinstance(outcome, ResourcePut)]
        assert len(won) == 1
        kept = await read_resource(store, "acme", "schema", "refund")
        assert kept == made[won[0]]


async def listed_resources(store: Database, *, limit: int, prefix: str | None = None) -> list[str]:
    found: list[ResourceRow] = []
    cursor: str | None = None
    while True:
        page = await list_resources(store, "acme", "schema", limit=limit, cursor=cursor, prefix=prefix)
        assert len(page.rows) <= limit
        found += page.rows
        if page.next_cursor is None:
            return [one.resource_id for one in found]
        cursor = page.next_cursor


@on_every_platform_store
async def test_resources_are_listed_by_id_in_pages_of_any_size(store: Database) -> None:
    names = ["", "a", "a\U0010ffff", "a-1", "a-2", "a-%", "B", "b", "ä", "\U0001f600", "\ufffd"]
    for name in random.Random(3).sample(names, len(names)):
        await put_resource(store, resource(name), expected_etag=None)
    await put_resource(store, resource("a-3", kind="model"), expected_etag=None)
    await put_resource(store, resource("a-3", tenant="other"), expected_etag=None)
    for limit in (1, 2, 3, 50):
        assert await listed_resources(store, limit=limit) == sorted(names)
        for prefix in ("a", "a-", "a-1", "a-%", "b", "z", "", None):
            expected = [name for name in sorted(names) if name.startswith(prefix or "")]
            assert await listed_resources(store, limit=limit, prefix=prefix) == expected
    everything = await list_all_resources(store, "schema")
    assert [(one.tenant, one.resource_id) for one in everything] == [
        *(("acme", name) for name in sorted(names)),
        ("other", "a-3"),
    ]
    assert await list_all_resources(store, "nothing") == ()


@on_every_platform_store
async def test_resources_that_come_and_go_neither_repeat_nor_hide_others(store: Database) -> None:
    for name in "bdfh":
        await put_resource(store, resource(name), expected_etag=None)
    first = await list_resources(store, "acme", "schema", limit=2)
    for name in "ace":
        await put_resource(store, resource(name), expected_etag=None)
    await delete_resource(store, "acme", "schema", "d", expected_etag=ANY_ETAG)
    second = await list_resources(store, "acme", "schema", limit=9, cursor=first.next_cursor)
    assert [one.resource_id for one in first.rows + second.rows] == ["b", "d", "e", "f", "h"]


# --- deliveries ----------------------------------------------------------------------------------


@on_every_platform_store
async def test_a_delivery_is_queued_once(store: Database) -> None:
    full = delivery(
        1, state="dead", attempts=7, next_at=None, last_status=500, last_error="no answer", event={"data": AWKWARD}
    )
    assert await add_deliveries(store, []) == 0
    assert await add_deliveries(store, [delivery(0), full, delivery(0, run_id="again")]) == 2
    assert await add_deliveries(store, [delivery(1), delivery(2)]) == 1
    assert await add_deliveries(store, [delivery(0, tenant="other")]) == 1
    assert (await list_deliveries(store, "acme", limit=9)).rows == (delivery(2), full, delivery(0))


@on_every_platform_store
async def test_a_delivery_is_found_by_its_tenant_and_id(store: Database) -> None:
    await add_deliveries(store, [delivery(0), delivery(0, tenant="other", run_id="theirs")])
    assert await read_delivery(store, "acme", delivery(0).delivery_id) == delivery(0)
    assert await read_delivery(store, "other", delivery(0).delivery_id) == delivery(0, tenant="other", run_id="theirs")
    assert await read_delivery(store, "nobody", delivery(0).delivery_id) is None
    assert await read_delivery(store, "acme", delivery(1).delivery_id) is None


@on_every_platform_store
async def test_deliveries_are_due_in_the_order_of_their_times(store: Database) -> None:
    queued = [
        delivery(5),
        delivery(1),
        delivery(0, next_at=AT + 1),
        delivery(7, next_at=None),
        delivery(8, state="dead"),
        delivery(9, state="delivered", next_at=None),
        delivery(2, tenant="other"),
    ]
    assert await read_next_delivery_at(store) is None
    await add_deliveries(store, queued)

    async def due(now: int, limit: int = 10) -> list[str]:
        return [one.delivery_id for one in await list_due_deliveries(store, now=now, limit=limit)]

    assert await read_next_delivery_at(store) == AT
    assert await due(AT - 1) == []
    assert await due(AT) == ["d_7"]
    assert await due(AT + 1) == ["d_7", "d_1", "d_0"]
    assert await due(AT + 9) == ["d_7", "d_1", "d_0", "d_2", "d_5"]
    assert await due(AT + 9, limit=2) == ["d_7", "d_1"]


@on_every_platform_store
async def test_what_came_of_an_attempt_is_kept_and_what_is_delivered_does_not_change(store: Database) -> None:
    await add_deliveries(store, [delivery(0), delivery(0, tenant="other")])
    tried = delivery(0, attempts=1, next_at=AT + 50, updated_at=AT + 10, last_status=503, last_error="busy")
    await save_delivery(store, replace(tried, event={}, endpoint_id="x", run_id="x", created_at=0))
    assert await list_due_deliveries(store, now=AT + 49, limit=9) == (delivery(0, tenant="other"),)
    assert (await list_deliveries(store, "acme", limit=9)).rows == (tried,)
    done = replace(tried, state="delivered", attempts=2, next_at=None, last_status=200, last_error=None)
    await save_delivery(store, done)
    assert (await list_deliveries(store, "acme", limit=9)).rows == (done,)
    await save_delivery(store, delivery(77))
    assert (await list_deliveries(store, "acme", limit=9)).rows == (done,)
    await save_delivery(store, replace(done, state="pending", next_at=AT))
    assert len(await list_due_deliveries(store, now=AT, limit=9)) == 2


@on_every_platform_store
async def test_one_of_those_who_saw_a_delivery_claims_it_and_it_is_due_again_when_the_claim_ends(
    store: Database,
) -> None:
    await add_deliveries(store, [delivery(0), delivery(1, next_at=None)])
    for seen in await list_due_deliveries(store, now=AT, limit=9):
        claims = [claim_delivery(store, seen, now=AT + number, until=AT + 25_000 + number) for number in range(4)]
        (claimed,) = [found for found in await asyncio.gather(*claims) if found is not None]
        assert await read_delivery(store, "acme", seen.delivery_id) == claimed
        assert claimed == replace(seen, attempts=1, next_at=claimed.next_at, updated_at=claimed.updated_at)
    assert await list_due_deliveries(store, now=AT + 24_999, limit=9) == ()
    due = await list_due_deliveries(store, now=AT + 25_003, limit=9)
    assert [await claim_delivery(store, seen, now=AT + 25_003, until=AT + 50_003) for seen in due] == [
        replace(seen, attempts=2, next_at=AT + 50_003, updated_at=AT + 25_003) for seen in due
    ]
    assert await claim_delivery(store, delivery(77), now=AT, until=AT) is None


@on_every_platform_store
async def test_what_came_of_an_attempt_is_not_stored_after_another_claim(store: Database) -> None:
    await add_deliveries(store, [delivery(0)])
    first = await claim_delivery(store, delivery(0), now=AT, until=AT + 10)
    assert first is not None
    second = await claim_delivery(store, first, now=AT + 10, until=AT + 20)
    assert second is not None
    delivered = replace(first, state="delivered", next_at=None, last_status=204)
    assert not await change_delivery(store, first, delivered)
    assert await read_delivery(store, "acme", "d_0") == second
    delivered = replace(second, state="delivered", next_at=None, last_status=204)
    assert await change_delivery(store, second, delivered)
    assert not await change_delivery(store, second, replace(second, state="dead"))
    assert await read_delivery(store, "acme", "d_0") == delivered


async def listed_deliveries(store: Database, *, limit: int, **query: Any) -> list[str]:
    found: list[DeliveryRow] = []
    cursor: str | None = None
    while True:
        page = await list_deliveries(store, "acme", limit=limit, cursor=cursor, **query)
        assert len(page.rows) <= limit
        found += page.rows
        if page.next_cursor is None:
            return [one.delivery_id for one in found]
        cursor = page.next_cursor


@on_every_platform_store
async def test_deliveries_are_listed_from_the_last_that_was_queued(store: Database) -> None:
    for number in range(6):
        state = ["pending", "dead", "delivered"][number % 3]
        await add_deliveries(store, [delivery(number, endpoint_id=["crm", "erp"][number % 2], state=state)])
    await add_deliveries(store, [delivery(9, tenant="other")])
    for limit in (1, 2, 50):
        assert await listed_deliveries(store, limit=limit) == ["d_5", "d_4", "d_3", "d_2", "d_1", "d_0"]
        assert await listed_deliveries(store, limit=limit, endpoint_id="erp") == ["d_5", "d_3", "d_1"]
        assert await listed_deliveries(store, limit=limit, state="dead") == ["d_4", "d_1"]
        assert await listed_deliveries(store, limit=limit, state="dead", endpoint_id="erp") == ["d_1"]


@on_every_platform_store
async def test_deliveries_that_come_meanwhile_neither_repeat_nor_hide_others(store: Database) -> None:
    await add_deliveries(store, [delivery(number) for number in range(4)])
    first = await list_deliveries(store, "acme", limit=2)
    await add_deliveries(store, [delivery(8), delivery(9)])
    await save_delivery(store, delivery(1, attempts=1))
    second = await list_deliveries(store, "acme", limit=9, cursor=first.next_cursor)
    assert [one.delivery_id for one in first.rows + second.rows] == ["d_3", "d_2", "d_1", "d_0"]


@on_every_platform_store
async def test_deliveries_that_ended_are_forgotten_and_others_never(store: Database) -> None:
    for number, state in enumerate(["delivered", "dead", "pending", "delivered", "delivered"]):
        await add_deliveries(store, [delivery(number, state=state, updated_at=AT + 10 - number)])
    assert await forget_deliveries(store, before=AT + 7, limit=10) == 1
    assert await listed_deliveries(store, limit=9) == ["d_3", "d_2", "d_1", "d_0"]
    assert await forget_deliveries(store, before=AT + 100, limit=2) == 2
    assert await listed_deliveries(store, limit=9) == ["d_2", "d_0"]
    assert await forget_deliveries(store, before=AT + 100, limit=2) == 1
    assert await forget_deliveries(store, before=AT + 100, limit=2) == 0
    assert await listed_deliveries(store, limit=9) == ["d_2"]


@on_every_platform_store
async def test_a_delivery_of_another_tenant_with_the_same_id_is_forgotten_in_its_own_time(store: Database) -> None:
    newer = delivery(0, tenant="other", state="dead", updated_at=AT + 50)
    await add_deliveries(store, [delivery(0, state="dead"), newer])
    assert await forget_deliveries(store, before=AT + 7, limit=10) == 1
    assert await read_delivery(store, "other", newer.delivery_id) == newer
    assert await read_delivery(store, "acme", newer.delivery_id) is None


# --- marks, and what holds for all ---------------------------------------------------------------


@on_every_platform_store
async def test_a_small_value_is_kept_under_its_name(store: Database) -> None:
    assert await read_mark(store, "place") is None
    values: list[JsonValue] = [17, "r_1", [1, None], AWKWARD, False, 0, None, {}]
    for value in values:
        await set_mark(store, "place", value)
        assert await read_mark(store, "place") == value
    await set_mark(store, "other", 1)
    assert await read_mark(store, "place") == {}


@on_every_platform_store
async def test_a_page_has_at_least_one_row_and_a_cursor_is_one_that_was_returned(store: Database) -> None:
    for limit in (0, -1):
        for listing in (
            list_keys(store, tenant=None, limit=limit),
            list_resources(store, "acme", "schema", limit=limit),
            list_deliveries(store, "acme", limit=limit),
        ):
            with pytest.raises(Rejected, match="INVALID_LIST_LIMIT"):
                await listing
    huge = "WzEwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAsImEiXQ"  # a moment that no clock shows
    for cursor in ("", "x", "kk", "ä", "k-1", "e30", "%%%%", huge, "\ud800"):
        for listing in (
            list_keys(store, tenant=None, limit=1, cursor=cursor),
            list_resources(store, "acme", "schema", limit=1, cursor=cursor),
            list_deliveries(store, "acme", limit=1, cursor=cursor),
        ):
            with pytest.raises(Rejected, match="INVALID_LIST_CURSOR"):
                await listing
    assert (await list_deliveries(store, "acme", limit=1, cursor="k" + "f" * 40)).rows == ()


@on_every_platform_store
async def test_text_that_is_not_unicode_is_refused_and_changes_nothing(store: Database) -> None:
    half = "\ud800"
    before = await platform_contents(store)
    with pytest.raises(Rejected, match="TEXT_NOT_UNICODE"):
        await put_key(store, key_row(name=half))
    with pytest.raises(Rejected, match="TEXT_NOT_UNICODE"):
        await claimed(store, claim(half))
    with pytest.raises(Rejected, match="TEXT_NOT_UNICODE"):
        await append_audit(store, [entry(0), entry(1, subject=half)], seal=SEAL)
    with pytest.raises(Rejected, match="TEXT_NOT_UNICODE"):
        await put_resource(store, resource(half), expected_etag=None)
    with pytest.raises(Rejected, match="TEXT_NOT_UNICODE"):
        await add_deliveries(store, [delivery(0), delivery(1, endpoint_id=half)])
    assert await platform_contents(store) == before


# --- topics --------------------------------------------------------------------------------------


@on_every_platform_store
async def test_a_change_of_a_key_changes_its_topic(store: Database) -> None:
    marks = [store.changed(Topic.KEYS)]
    row = key_row("k_1")
    await put_key(store, row)
    marks.append(store.changed(Topic.KEYS))
    await put_key(store, replace(row, revoked_at=AT))
    marks.append(store.changed(Topic.KEYS))
    await put_key(store, key_row("k_2"))
    await replace_key(store, replace(key_row("k_2"), expires_at=AT), key_row("k_3", replaces="k_2"))
    marks.append(store.changed(Topic.KEYS))
    assert len(set(marks)) == 4


@on_every_platform_store
async def test_a_change_of_a_resource_changes_the_topic_of_its_kind(store: Database) -> None:
    for kind, topic in TOPIC_OF_KIND.items():
        marks = [store.changed(topic)]
        for body in ({"a": 1}, {"a": 2}):
            await put_resource(store, resource(kind=kind, body=body), expected_etag=ANY_ETAG)
            marks.append(store.changed(topic))
        await put_resources(store, [resource(kind=kind, body={"a": 3})])
        marks.append(store.changed(topic))
        row = resource(kind=kind)
        await delete_resource(store, row.tenant, kind, row.resource_id, expected_etag=ANY_ETAG)
        marks.append(store.changed(topic))
        assert len(set(marks)) == 5, kind


@on_every_platform_store
async def test_a_change_of_any_other_resource_changes_the_topic_of_registered_things_alone(store: Database) -> None:
    before = {topic: store.changed(topic) for topic in Topic}
    await put_resource(store, resource(kind="tool"), expected_etag=None)
    after = {topic: store.changed(topic) for topic in Topic}
    assert {topic for topic in Topic if after[topic] != before[topic]} == {Topic.REGISTERED, Topic.ANYTHING}
