"""Leaves of audit records: what they cover, and how personal data in them is erased."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from penstock.governance.audit.chain import ChainSeal
from penstock.governance.audit.leaves import ERASED, PERSONAL, entry_fields, entry_leaf, leaf_hash, redact, redact_entry
from penstock.runtime.ports.audit import AuditEntry

SEAL = ChainSeal(b"k" * 32)
SALT = "5a" * 16
ENTRY = AuditEntry(
    at=1,
    tenant="shop",
    principal="key:ada",
    surface="mcp",
    operation="pay",
    outcome="allowed",
    subject="order-1",
    principal_name="Ada",
    acting_for=("person:ada",),
    remote="192.0.2.7",
    client="studio/1",
    reasons=("limit",),
    details={"amount": 3},
    salt=SALT,
)
FIELDS = entry_fields(ENTRY)


def test_a_leaf_covers_every_field_and_the_number() -> None:
    leaf = leaf_hash(FIELDS, 1)
    changed = {
        name: value + 1 if isinstance(value, int) else [*value, "x"] if isinstance(value, list) else "x"
        for name, value in FIELDS.items()
        if name not in ("details", "salt")
    }
    for name, value in changed.items():
        assert leaf_hash({**FIELDS, name: value}, 1) != leaf, name
        assert leaf_hash({other: kept for other, kept in FIELDS.items() if other != name}, 1) != leaf, name
    assert leaf_hash({**FIELDS, "details": {"amount": 4}}, 1) != leaf
    assert leaf_hash({**FIELDS, "salt": "5b" * 16}, 1) != leaf
    assert leaf_hash(FIELDS, 2) != leaf


@given(st.lists(st.lists(st.sampled_from(PERSONAL), max_size=3), max_size=4))
def test_whatever_is_erased_in_whatever_order_leaf_and_seal_stay(rounds: list[list[str]]) -> None:
    fields, gone = FIELDS, set[str]()
    for names in rounds:
        gone |= set(names)
        fields = redact(fields, names) or fields
    assert leaf_hash(fields, 1) == leaf_hash(FIELDS, 1)
    erased = ENTRY
    for names in rounds:
        erased = redact_entry(erased, names) or erased
    assert entry_fields(erased) == fields
    assert SEAL("0" * 64, 1, erased) == SEAL("0" * 64, 1, ENTRY)
    for name in gone - {"principal"}:
        assert getattr(erased, name) is None
    assert erased.principal == (ERASED if "principal" in gone else "key:ada")
    if gone:
        assert SALT not in str(fields), "the common salt would let anybody guess the rest"
        assert {*erased.redacted["commitments"]} == gone  # type: ignore[index]
        assert {*erased.redacted["salts"]} == {*PERSONAL} - gone  # type: ignore[index]


def test_what_was_erased_cannot_be_put_back_as_something_else() -> None:
    fields = redact(FIELDS, ("remote",))
    assert fields is not None
    forged = {**fields, "redacted": {**fields["redacted"], "commitments": {"remote": "0" * 64}}}
    assert leaf_hash(forged, 1) != leaf_hash(FIELDS, 1)
    added = {**fields, "client": "other"}
    assert leaf_hash(added, 1) != leaf_hash(FIELDS, 1)


def test_two_records_that_say_the_same_have_different_commitments() -> None:
    first, second = (redact({**FIELDS, "salt": salt}, PERSONAL) for salt in (SALT, "5b" * 16))
    assert first is not None
    assert second is not None
    assert not {*first["redacted"]["commitments"].values()} & {*second["redacted"]["commitments"].values()}


def test_a_record_without_a_salt_cannot_be_erased_and_one_without_its_own_cannot_be_hashed() -> None:
    plain = {name: value for name, value in FIELDS.items() if name != "salt"}
    assert redact(plain, PERSONAL) is None
    assert redact(FIELDS, ()) is None
    fields = redact(FIELDS, ("remote",))
    assert fields is not None
    with pytest.raises(ValueError, match="salt"):
        leaf_hash({**fields, "redacted": {"commitments": {}, "salts": {}}}, 1)
    with pytest.raises(ValueError, match=r"hexadecimal|salt"):
        leaf_hash({**FIELDS, "salt": "not hexadecimal"}, 1)


TEXTS = st.text(st.characters(codec=None), max_size=20)  # halves of surrogate pairs too
SCALARS = TEXTS | st.integers() | st.booleans() | st.none() | st.floats(allow_nan=False, allow_infinity=False)


@example(details={"\uffff": 1, "\U00010000": 2}, subject=None, reasons=None, count=1)  # in the order of their UTF-16
@example(details={"b": 1, "a": "x"}, subject="order-1", reasons=("z", "a"), count=2)
@example(details={}, subject="\ud800", reasons=("\udfff",), count=2**70)
@given(
    details=st.dictionaries(TEXTS, SCALARS | st.lists(SCALARS, max_size=3), max_size=12),
    subject=TEXTS | st.none(),
    reasons=st.lists(TEXTS, max_size=3).map(tuple) | st.none(),
    count=st.integers(),
)
def test_a_leaf_that_is_made_quickly_is_that_of_the_fields(
    details: dict[str, Any], subject: str | None, reasons: tuple[str, ...] | None, count: int
) -> None:
    for acting_for in (None, ("person:ada",)):
        entry = replace(
            ENTRY, details=details, subject=subject, reasons=reasons, count=count, acting_for=acting_for, code=subject
        )
        assert entry_leaf(entry, 7) == leaf_hash(entry_fields(entry), 7)


def test_a_leaf_of_an_entry_that_was_erased_or_has_no_salt_is_that_of_the_fields() -> None:
    erased = redact_entry(ENTRY, ("remote",))
    assert erased is not None
    for entry in (ENTRY, erased, replace(ENTRY, salt=None), replace(ENTRY, count=1.0)):  # altered
        assert entry_leaf(entry, 3) == leaf_hash(entry_fields(entry), 3)


@pytest.mark.parametrize("salt", ["not hexadecimal", 5])
def test_a_salt_that_is_none_is_reported_as_a_bad_record(salt: Any) -> None:
    with pytest.raises(ValueError, match=r"hexadecimal|salt"):
        entry_leaf(replace(ENTRY, salt=salt), 1)
