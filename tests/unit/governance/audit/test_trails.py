"""A stranger verifies a trail: every edit, deletion, insertion, reordering and truncation is found."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.governance.audit.chain import GENESIS_HASH, ChainSeal
from penstock.governance.audit.checkpoints import (
    Checkpoint,
    Note,
    SigningKey,
    origin_of,
    parse_notes,
    sign_checkpoint,
)
from penstock.governance.audit.leaves import PERSONAL, entry_fields, leaf_hash, redact
from penstock.governance.audit.redactions import REDACT_AUDIT, redaction_claim
from penstock.governance.audit.trails import (
    FORGET_AUDIT,
    SIGN_AUDIT,
    Allowances,
    RemovedPart,
    TrailReport,
    TrailVerifier,
    checkpoints_by_tenant,
)
from penstock.governance.audit.tree import Frontier, grown
from penstock.runtime.ports.audit import AuditEntry

SEAL = ChainSeal(b"k" * 32)
KEY, OTHER = SigningKey("penstock-1", b"1" * 32), SigningKey("penstock-1", b"2" * 32)
ORIGIN = origin_of("penstock-1", "shop")


@dataclass(frozen=True)
class Record:
    seq: int
    fields: dict[str, Any]
    previous_hash: str
    hash: str


def entry(number: int, **changes: Any) -> AuditEntry:
    said: dict[str, Any] = {"operation": "pay", "outcome": "allowed", "details": {"amount": number}, **changes}
    return AuditEntry(
        at=number,
        tenant="shop",
        principal=f"key:{number % 3}",
        surface="rest",
        remote="192.0.2.7",
        salt=f"{number:032x}",
        **said,
    )


def trail(entries: list[AuditEntry]) -> list[Record]:
    records: list[Record] = []
    previous = GENESIS_HASH
    for seq, item in enumerate(entries, 1):
        records.append(Record(seq, entry_fields(item), previous, SEAL(previous, seq, item)))
        previous = records[-1].hash
    return records


def signed(records: list[Record], *sizes: int, key: SigningKey = KEY) -> list[Note]:
    notes = []
    for size in sizes:
        tree = grown(Frontier(), (leaf_hash(record.fields, record.seq) for record in records[:size]))
        checkpoint = Checkpoint(origin=ORIGIN, size=size, root=tree.root, at=f"2026-01-{size:02}T00:00:00Z")
        notes += parse_notes(sign_checkpoint(key, checkpoint))
    return notes


def verified(parts: list[Record | RemovedPart], notes: list[Note], **choices: Any) -> TrailReport:
    checkpoints = checkpoints_by_tenant(notes).get("shop", [])
    verifier = TrailVerifier("shop", frozenset({KEY.verifier}), checkpoints, **choices)
    for part in parts:
        if isinstance(part, RemovedPart):
            verifier.add_removed(part)
        else:
            verifier.add_record(part.seq, part.fields, part.previous_hash, part.hash)
    return verifier.report()


def kinds(report: TrailReport) -> list[str]:
    return [problem.kind for problem in report.problems]


RECORDS = trail([entry(number) for number in range(10)])
NOTES = signed(RECORDS, 4, 8)


def gone(first: int, last: int) -> RemovedPart:
    part = RECORDS[first - 1 : last]
    leaves = b"".join(leaf_hash(record.fields, record.seq) for record in part)
    return RemovedPart(
        first_seq=first,
        last_seq=last,
        previous_hash=part[0].previous_hash,
        last_hash=part[-1].hash,
        leaves=base64.b64encode(leaves).decode(),
    )


def test_a_trail_that_nobody_touched_is_intact() -> None:
    report = verified([*RECORDS], NOTES)
    assert report.intact
    assert (report.records, report.checkpoints, report.covered, report.last_seq) == (10, 2, 8, 10)
    assert report.covered_at == "2026-01-08T00:00:00Z"


def test_an_edit_is_found_and_where() -> None:
    edited = Record(6, {**RECORDS[5].fields, "operation": "refund"}, RECORDS[5].previous_hash, RECORDS[5].hash)
    report = verified([*RECORDS[:5], edited, *RECORDS[6:]], NOTES)
    assert kinds(report) == ["altered"]
    assert report.problems[0].seq == 5, "the first record after the last checkpoint that fits"
    assert report.covered == 4


def test_a_deletion_an_insertion_and_a_reordering_are_found() -> None:
    assert kinds(verified([*RECORDS[:5], *RECORDS[6:]], NOTES)) == ["gap"]
    assert kinds(verified([*RECORDS[:6], RECORDS[5], *RECORDS[6:]], NOTES)) == ["reordered"]
    assert kinds(verified([*RECORDS[:4], RECORDS[5], RECORDS[4], *RECORDS[6:]], NOTES)) == ["gap"]
    assert kinds(verified([*RECORDS[1:]], NOTES)) == ["gap"], "the beginning"


def test_a_deletion_is_found_even_if_the_rest_is_numbered_and_linked_again() -> None:
    again = trail([entry(number) for number in range(10) if number != 5])
    assert kinds(verified([*again], NOTES)) == ["altered"]


def test_a_truncation_is_found_by_a_checkpoint_that_was_kept() -> None:
    report = verified([*RECORDS[:7]], NOTES)
    assert kinds(report) == ["truncated"]
    assert report.problems[0].seq == 8
    assert kinds(verified([], NOTES)) == ["truncated"]
    assert verified([*RECORDS[:8]], NOTES).intact, "nothing that was signed is missing"


def test_a_record_after_the_last_checkpoint_has_to_follow_the_one_before() -> None:
    loose = Record(10, RECORDS[9].fields, "0" * 64, RECORDS[9].hash)
    assert kinds(verified([*RECORDS[:9], loose], NOTES)) == ["wrong_link"]


def test_a_checkpoint_of_another_key_or_a_second_one_of_the_same_size_is_found() -> None:
    assert kinds(verified([*RECORDS], [*NOTES, *signed(RECORDS, 9, key=OTHER)])) == ["unknown_key"]
    other = trail([entry(number + 100) for number in range(8)])
    assert "fork" in kinds(verified([*RECORDS], [*NOTES, *signed(other, 8)]))


def test_records_that_retention_removed_are_intact_if_a_record_says_so() -> None:
    says = entry(10, operation=FORGET_AUDIT, details={"before_seq": 7})
    records = trail([*(entry(number) for number in range(10)), says])
    notes = signed(records, 4, 11)
    kept: list[Record | RemovedPart] = [gone(1, 2), records[2], gone(4, 6), *records[6:]]
    report = verified(kept, notes)
    assert report.intact
    assert (report.records, report.removed, report.checkpoints) == (6, 5, 2)
    assert kinds(verified([gone(1, 7), *records[7:]], notes)) == ["removed_unrecorded"]
    assert kinds(verified([gone(1, 2), *RECORDS[2:]], NOTES)) == ["removed_unrecorded"]


def test_removed_records_whose_leaves_were_changed_are_found() -> None:
    says = entry(10, operation=FORGET_AUDIT, details={"before_seq": 7})
    records = trail([*(entry(number) for number in range(10)), says])
    notes = signed(records, 11)
    part = gone(1, 2)
    forged = RemovedPart(first_seq=1, last_seq=2, last_hash=part.last_hash, leaves=base64.b64encode(b"x" * 64).decode())
    assert kinds(verified([forged, *records[2:]], notes)) == ["altered"]
    for leaves in ("AAAA", "no base64"):
        wrong = RemovedPart(first_seq=1, last_seq=2, leaves=leaves)
        assert kinds(verified([wrong, *records[2:]], notes)) == ["malformed"]


def redaction_of(number: int, names: Sequence[str] = PERSONAL, *, said_by: str = "allowed") -> list[Record]:
    """Ten records of which one is redacted, and the record that says so."""
    claims = {str(number): redaction_claim(entry(number - 1), names)}
    says = entry(10, operation=REDACT_AUDIT, details={"commitments": claims}, outcome=said_by)
    records = trail([*(entry(item) for item in range(10)), says])
    erased = redact(records[number - 1].fields, names)
    assert erased is not None
    assert "192.0.2.7" not in str(erased)
    place = records[number - 1]
    return [*records[: number - 1], Record(number, erased, place.previous_hash, place.hash), *records[number:]]


@pytest.mark.parametrize("said_by", ["allowed", "executed"])
def test_a_redaction_is_intact_if_a_record_that_is_signed_says_so(said_by: str) -> None:
    records = redaction_of(3, said_by=said_by)
    report = verified([*records], signed(records, 4, 11))
    assert report.intact, report.problems
    assert (report.redacted, report.unrecorded_redactions) == (1, 0)
    uncovered = verified([*records], signed(records, 4, 10))
    assert kinds(uncovered) == ["uncovered"]
    assert "record 11" in uncovered.problems[0].message
    assert verified([*records], signed(records, 4, 10), allowed=Allowances(uncovered=True)).intact
    assert verified([*records], [], is_sealed=True).intact, "who verified the seals needs no checkpoint"


def test_a_redaction_that_no_record_names_is_reported_and_can_be_accepted() -> None:
    records = redaction_of(3)[:10]
    notes = signed(records, 10)
    report = verified([*records], notes)
    assert kinds(report) == ["redaction_unrecorded"]
    assert (report.problems[0].seq, report.unrecorded_redactions) == (3, 1)
    allowed = verified([*records], notes, allowed=Allowances(unrecorded_redactions=True))
    assert (allowed.intact, allowed.unrecorded_redactions) == (True, 1)
    assert kinds(verified([*redaction_of(3, said_by="refused")], signed(redaction_of(3, said_by="refused"), 11))) == [
        "redaction_unrecorded"
    ]


def test_a_redaction_in_two_steps_needs_both_on_record() -> None:
    first, second = (redaction_claim(entry(2), names) for names in (["remote"], ["principal"]))
    says = [
        entry(10 + n, operation=REDACT_AUDIT, details={"commitments": {"3": c}}) for n, c in enumerate((first, second))
    ]
    records = trail([*(entry(number) for number in range(10)), *says])
    erased = redact(redact(records[2].fields, ["remote"]) or {}, ["principal"])
    assert erased is not None
    parts = [*records[:2], Record(3, erased, records[2].previous_hash, records[2].hash), *records[3:]]
    assert verified([*parts], signed(records, 12)).intact
    assert kinds(verified([*parts[:11]], signed(records, 11))) == ["redaction_unrecorded"]


def test_a_trail_without_a_checkpoint_is_not_signed_unless_its_seals_were_verified() -> None:
    assert kinds(verified([*RECORDS], [])) == ["unsigned"]
    assert verified([*RECORDS], [], is_sealed=True).intact
    assert verified([*RECORDS], [], allowed=Allowances(uncovered=True)).intact
    assert verified([], []).intact, "nothing to sign"


def test_a_checkpoint_that_records_name_and_that_is_gone_is_missed() -> None:
    says = [entry(4, operation=SIGN_AUDIT, details={"size": 4}), entry(7, operation=SIGN_AUDIT, details={"size": 7})]
    items = [entry(number) for number in range(9)]
    records = trail([*items[:4], says[0], *items[4:6], says[1], *items[6:]])
    both = signed(records, 4, 7)
    assert verified([*records], both).intact
    assert kinds(verified([*records], both[:1])) == ["checkpoint_missing"], "the last is gone"
    assert verified([*records], both[1:]).intact, "a later one covers what an earlier one did"
    for left in (both[:1], both[1:], []):
        assert kinds(verified([*records], left, is_sealed=True)) == ["checkpoint_missing"]
        assert verified([*records], left, is_sealed=True, allowed=Allowances(uncovered=True)).intact
    assert verified([*records], both, is_sealed=True).intact


def test_a_record_that_cannot_be_one_is_found() -> None:
    broken = Record(3, {**RECORDS[2].fields, "salt": 7}, RECORDS[2].previous_hash, RECORDS[2].hash)
    assert kinds(verified([*RECORDS[:2], broken, *RECORDS[3:]], NOTES)) == ["malformed"]


CHANGES = st.one_of(
    st.fixed_dictionaries({"operation": st.text(max_size=5)}),
    st.fixed_dictionaries({"at": st.integers(0, 2**40)}),
    st.fixed_dictionaries({"principal": st.text(max_size=5)}),
    st.fixed_dictionaries({"remote": st.text(max_size=5)}),
    st.fixed_dictionaries({"details": st.dictionaries(st.text(max_size=3), st.floats(0, 1), max_size=2)}),
    st.fixed_dictionaries({"extra": st.text(max_size=5)}),
)


@given(st.integers(1, 30), st.data())
def test_whatever_is_done_to_a_signed_trail_is_found(count: int, data: st.DataObject) -> None:
    records = trail([entry(number) for number in range(count)])
    sizes = sorted({*data.draw(st.lists(st.integers(1, count), max_size=3)), count})
    notes = signed(records, *sizes)
    assert verified([*records], notes).intact
    parts, place = [*records], data.draw(st.integers(0, count - 1))
    match data.draw(st.sampled_from(["edit", "delete", "insert", "move", "truncate", "rewrite"])):
        case "edit":
            fields = {**records[place].fields, **data.draw(CHANGES)}
            parts[place] = Record(place + 1, fields, records[place].previous_hash, records[place].hash)
            if fields == records[place].fields:
                return
        case "delete":
            del parts[place]
        case "insert":
            other = records[data.draw(st.integers(0, count - 1))]
            parts.insert(place, Record(place + 1, other.fields, other.previous_hash, other.hash))
        case "move":
            to = data.draw(st.integers(0, count - 1))
            if to == place:
                return
            parts.insert(to, parts.pop(place))
        case "truncate":
            parts = parts[:place]
        case _:
            # The whole rest is written again, with numbers and links that fit.
            parts = [*trail([entry(number + (number >= place)) for number in range(count)])]
    assert not verified([*parts], notes).intact
