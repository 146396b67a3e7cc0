"""The chain of the audit trail: whatever is changed, taken out, put in or moved is found and named."""

import hmac
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.canonical import canonical_json
from penstock.governance.audit.chain import (
    GENESIS_HASH,
    ChainBroken,
    ChainOutcome,
    ChainVerified,
    seal_entry,
    verified_leaf,
    verify_chain,
)
from penstock.governance.audit.leaves import entry_fields, leaf_hash

KEY = b"k" * 32


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of some store."""

    at: int
    tenant: str = "acme"
    code: str | None = None
    details: dict[str, Any] = msgspec.field(default_factory=dict)


class EntryOfALaterRelease(Entry, frozen=True, kw_only=True):
    """With a field more."""

    place: str | None = None


class Sealed(msgspec.Struct, frozen=True, kw_only=True):
    """A record of some store."""

    seq: int
    entry: Entry
    previous_hash: str
    hash: str


def chain(entries: Sequence[Entry]) -> list[Sealed]:
    records: list[Sealed] = []
    previous_hash = GENESIS_HASH
    for seq, entry in enumerate(entries, 1):
        sealed = seal_entry(KEY, previous_hash, seq, entry)
        records.append(Sealed(seq=seq, entry=entry, previous_hash=previous_hash, hash=sealed))
        previous_hash = sealed
    return records


def look(records: Sequence[Sealed], previous: str | None = GENESIS_HASH) -> ChainOutcome:
    return verify_chain(KEY, records, expected_previous=previous)


FIVE = chain([Entry(at=number, details={"number": number}) for number in range(5)])


def test_a_seal_is_a_keyed_hash_of_canonical_json() -> None:
    entry = Entry(at=1, code="X", details={"b": 1.0, "a": ["ä", None]})
    text = (
        '{"entry":{"at":1,"code":"X","details":{"a":["ä",null],"b":1},"tenant":"acme"},'
        f'"previous_hash":"{GENESIS_HASH}","seq":7}}'
    )
    assert seal_entry(KEY, GENESIS_HASH, 7, entry) == hmac.new(KEY, text.encode(), "sha256").hexdigest()


TEXTS = st.text(st.characters(codec=None), max_size=20)  # halves of surrogate pairs too
SCALARS = TEXTS | st.integers() | st.booleans() | st.none() | st.floats(allow_nan=False, allow_infinity=False)


@example(details={"\uffff": 1, "\U00010000": 2}, tenant="")  # in the order of their UTF-16
@given(details=st.dictionaries(TEXTS, SCALARS | st.lists(SCALARS, max_size=3), max_size=12), tenant=TEXTS)
def test_what_is_sealed_quickly_is_sealed_as_canonical_json_says(details: dict[str, Any], tenant: str) -> None:
    entry = Entry(at=1, tenant=tenant, details=details)
    fields: JsonObject = {"at": 1, "details": details, "tenant": tenant}
    text = canonical_json({"entry": fields, "previous_hash": GENESIS_HASH, "seq": 7}, exact_integers=True)
    assert seal_entry(KEY, GENESIS_HASH, 7, entry) == hmac.new(KEY, text, "sha256").hexdigest()


def test_a_chain_that_nobody_touched_is_verified() -> None:
    assert look(FIVE) == ChainVerified(5, 5, FIVE[-1].hash)
    assert look(FIVE, None) == ChainVerified(5, 5, FIVE[-1].hash)


def test_no_records_are_verified_and_lead_on_from_where_they_were_expected() -> None:
    assert look([]) == ChainVerified(0, 0, GENESIS_HASH)
    assert look([], None) == ChainVerified(0, None, None)
    assert verify_chain(KEY, [], expected_previous="abc", expected_seq=9) == ChainVerified(0, 8, "abc")


def test_a_chain_is_verified_in_pieces() -> None:
    first = look(FIVE[:2])
    assert isinstance(first, ChainVerified)
    assert first.last_seq is not None
    last = verify_chain(KEY, FIVE[2:], expected_previous=first.last_hash, expected_seq=first.last_seq + 1)
    assert last == ChainVerified(3, 5, FIVE[-1].hash)


def test_a_chain_whose_beginning_was_forgotten_is_verified_from_its_first_record() -> None:
    assert look(FIVE[2:], None) == ChainVerified(3, 5, FIVE[-1].hash)
    assert look(FIVE[2:], FIVE[1].hash) == ChainVerified(3, 5, FIVE[-1].hash)


def test_a_beginning_that_should_be_there_is_missed() -> None:
    assert look(FIVE[2:]) == ChainBroken(3, "gap")
    assert look(FIVE[2:], "another hash") == ChainBroken(3, "wrong_link")
    assert verify_chain(KEY, FIVE[2:], expected_previous=None, expected_seq=2) == ChainBroken(3, "gap")
    assert look(FIVE, "another hash") == ChainBroken(1, "wrong_link")


def test_a_first_record_that_follows_something_is_found() -> None:
    [forged] = chain([Entry(at=0)])
    forged = replace(forged, previous_hash="x", hash=seal_entry(KEY, "x", 1, forged.entry))
    assert look([forged], None) == ChainBroken(1, "wrong_link")


def test_another_key_verifies_nothing() -> None:
    assert verify_chain(b"other", FIVE, expected_previous=GENESIS_HASH) == ChainBroken(1, "altered")


@pytest.mark.parametrize("place", range(5))
def test_an_entry_that_was_altered_is_named(place: int) -> None:
    for change in (
        {"entry": replace(FIVE[place].entry, at=99)},
        {"entry": replace(FIVE[place].entry, code="")},
        {"entry": replace(FIVE[place].entry, details={})},
        {"entry": replace(FIVE[place].entry, details={"number": float("nan")})},
        {"hash": "0" * 64},
        {"hash": "ä"},
    ):
        records = [*FIVE]
        records[place] = replace(FIVE[place], **change)
        assert look(records) == ChainBroken(place + 1, "altered")


def test_a_gap_a_change_of_order_and_a_wrong_link_are_told_apart() -> None:
    one, two, three, four, five = FIVE
    assert look([one, two, four, five]) == ChainBroken(4, "gap")
    assert look([one, three, two, four, five]) == ChainBroken(3, "reordered")
    assert look([two, one]) == ChainBroken(2, "reordered")
    assert look([one, two, two, three]) == ChainBroken(2, "reordered")
    assert look([one, two, three, four, five, one]) == ChainBroken(1, "reordered")
    assert look([one, replace(two, previous_hash="x"), three]) == ChainBroken(2, "wrong_link")


def test_an_entry_sealed_again_without_those_that_follow_breaks_their_link() -> None:
    changed = replace(FIVE[1].entry, at=99)
    resealed = replace(FIVE[1], entry=changed, hash=seal_entry(KEY, FIVE[1].previous_hash, 2, changed))
    assert look([FIVE[0], resealed, *FIVE[2:]]) == ChainBroken(3, "wrong_link")


def test_entries_whose_numbers_were_exchanged_are_found() -> None:
    renumbered = [FIVE[0], replace(FIVE[2], seq=2), replace(FIVE[1], seq=3), *FIVE[3:]]
    assert look(renumbered) == ChainBroken(2, "wrong_link")
    closed_up = [FIVE[0], *(replace(record, seq=record.seq - 1) for record in FIVE[2:])]
    assert look(closed_up) == ChainBroken(2, "wrong_link")


def test_a_later_release_with_more_fields_verifies_what_an_earlier_one_sealed() -> None:
    later = [replace(record, entry=EntryOfALaterRelease(**msgspec.structs.asdict(record.entry))) for record in FIVE]
    assert look(later) == ChainVerified(5, 5, FIVE[-1].hash)
    later[1] = replace(later[1], entry=EntryOfALaterRelease(at=1, details={"number": 1}, place="here"))
    assert look(later) == ChainBroken(2, "altered")


json_values: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
entries = st.builds(
    Entry,
    at=st.integers(),
    tenant=st.text(),
    code=st.none() | st.text(),
    details=st.dictionaries(st.text(), json_values, max_size=3),
)
chains = st.lists(entries, min_size=2, max_size=6).map(chain)


def same(one: JsonValue, other: JsonValue) -> bool:
    """Equal as JSON: true is not 1, but 1.0 is."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


@given(chains)
def test_any_chain_is_verified(records: list[Sealed]) -> None:
    assert look(records) == ChainVerified(len(records), len(records), records[-1].hash)
    written = msgspec.json.decode(msgspec.json.encode(records), type=list[Sealed])
    assert look(written) == look(records)


@given(chains, st.data())
def test_any_single_change_is_found_where_it_was_made(records: list[Sealed], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(records) - 1))
    other = data.draw(entries)
    field = data.draw(st.sampled_from(["at", "tenant", "code", "details"]))
    record = records[place]
    changed = replace(record, entry=replace(record.entry, **{field: getattr(other, field)}))
    if not same(msgspec.to_builtins(changed), msgspec.to_builtins(record)):
        records[place] = changed
        assert look(records) == ChainBroken(place + 1, "altered")


@given(chains, st.data())
def test_any_deletion_but_that_of_the_end_is_found(records: list[Sealed], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(records) - 2))
    del records[place]
    assert look(records) == ChainBroken(place + 2, "gap")


@given(chains, st.data())
def test_any_exchange_of_two_records_is_found(records: list[Sealed], data: st.DataObject) -> None:
    one, other = sorted(data.draw(st.sets(st.integers(0, len(records) - 1), min_size=2, max_size=2)))
    records[one], records[other] = records[other], records[one]
    assert look(records) == ChainBroken(other + 1, "reordered")


@given(chains, st.data())
def test_any_change_of_a_number_or_a_hash_is_found(records: list[Sealed], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(records) - 1))
    field = data.draw(st.sampled_from(["seq", "previous_hash", "hash"]))
    value = data.draw(st.integers() if field == "seq" else st.text())
    if value != getattr(records[place], field):
        records[place] = replace(records[place], **{field: value})
        assert isinstance(look(records), ChainBroken)


class SaltedEntry(Entry, frozen=True, kw_only=True):
    """With a salt, as records have it now."""

    salt: str | None = "5a" * 16


@pytest.mark.parametrize("kind", [Entry, SaltedEntry])
def test_the_leaf_of_a_record_is_given_only_if_the_record_is_what_was_sealed(kind: type[Entry]) -> None:
    records = chain([kind(at=number, details={"number": number}) for number in range(3)])
    for record in records:
        assert verified_leaf(KEY, record) == leaf_hash(entry_fields(record.entry), record.seq)
        for altered in (
            replace(record, entry=replace(record.entry, at=9)),
            replace(record, seq=record.seq + 1),
            replace(record, previous_hash="1" * 64),
            replace(record, hash="1" * 64),
        ):
            assert verified_leaf(KEY, altered) is None
        assert verified_leaf(b"other", record) is None


def test_the_first_record_follows_nothing_and_an_entry_that_is_not_json_has_no_leaf() -> None:
    entry = SaltedEntry(at=0)
    follows = Sealed(seq=1, entry=entry, previous_hash="x", hash=seal_entry(KEY, "x", 1, entry))
    assert verified_leaf(KEY, follows) is None
    unfit = SaltedEntry(at=0, details={"a": float("nan")})
    assert verified_leaf(KEY, Sealed(seq=2, entry=unfit, previous_hash="x", hash="x")) is None
