"""An audit trail as evidence: checkpoints, proofs, exports, holds, erasure and new keys, over the operations."""

from __future__ import annotations

import asyncio
import base64
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.app.gate import local_owner, open_gate
from penstock.app.penstock import Penstock
from penstock.app.retention import Retention, apply_retention
from penstock.base import limits
from penstock.base.clock import ManualClock
from penstock.governance.audit.checkpoints import Checkpoint, VerifierKey, parse_notes, trusted_keys
from penstock.governance.audit.trail_lines import add_line, line_in
from penstock.governance.audit.trails import TrailReport, TrailVerifier, checkpoints_by_tenant
from penstock.governance.audit.tree import verify_consistency, verify_inclusion
from penstock.operations.audit.records import export_lines
from penstock.operations.gate.context import Credentials
from penstock.operations.gate.pipeline import ANONYMOUS, Gate
from penstock.runtime.tables.audit.removal import redact_audit
from tests.unit.operations.conftest import Caller
from tests.waiting import SECONDS_MAX

DAY = 24 * 60 * 60 * 1000
NOON = 1_767_268_800_000


def with_gate(path: Path, test: Callable[[Caller], Awaitable[None]], clock: ManualClock | None = None) -> None:
    async def body() -> None:
        async with (
            Penstock.open(path, clock=clock or ManualClock(NOON)) as penstock,
            open_gate(penstock) as gate,
        ):
            await test(Caller(gate, local_owner(), penstock))

    asyncio.run(asyncio.wait_for(body(), SECONDS_MAX))


async def changes(caller: Caller, first: int, count: int) -> None:
    for number in range(first, first + count):
        await caller.call("schema.create", id=f"s{number}", schema={})


async def exported(caller: Caller, **choices: Any) -> list[dict[str, Any]]:
    """The lines of the whole trail, page by page, as JSON."""
    lines: list[dict[str, Any]] = []
    after = 0
    while True:
        page = (await caller.reply("audit.export", after_seq=after, limit=3, **choices)).value
        found = page.events or export_lines(page)
        lines += msgspec.json.decode(msgspec.json.encode(found))
        after = page.last_seq
        if not page.has_more:
            return lines


def verified(lines: list[dict[str, Any]], key: str, *more: str) -> TrailReport:
    """What a stranger finds, who has the lines and a public key."""
    parsed = [line_in(line) for line in lines]
    notes = [note for line in parsed if "checkpoint" in line for note in parse_notes(line["checkpoint"])]
    notes += [note for text in more for note in parse_notes(text)]
    keys = trusted_keys([VerifierKey.parse(key)], [])
    verifier = TrailVerifier("default", keys, checkpoints_by_tenant(notes).get("default", []))
    for line in parsed:
        add_line(verifier, line)
    return verifier.report()


def test_a_stranger_verifies_an_export_with_the_public_key(tmp_path: Path) -> None:
    async def test(caller: Caller) -> None:
        key = (await caller.call("audit.key"))["public_key"]
        await changes(caller, 0, 4)
        first = await caller.call("audit.checkpoint")
        await changes(caller, 4, 3)
        second = await caller.call("audit.checkpoint")
        assert second["size"] > first["size"]
        again = await caller.call("audit.checkpoint")
        assert again["size"] == second["size"] + 1, "the record of the checkpoint itself came since"
        for choices in ({}, {"format": "cloudevents"}):
            lines = await exported(caller, **choices)
            report = verified(lines, key, first["note"])
            assert report.intact, report.problems
            assert report.checkpoints == 3
            assert report.covered == again["size"]
        listed = await caller.call("audit.checkpoints")
        assert [item["size"] for item in listed["items"]] == [again["size"], second["size"], first["size"]]

    with_gate(tmp_path / "penstock.db", test)


def test_an_event_has_the_members_that_cloudevents_requires(tmp_path: Path) -> None:
    async def test(caller: Caller) -> None:
        await changes(caller, 0, 2)
        await caller.call("audit.checkpoint")
        events = await exported(caller, format="cloudevents")
        assert all(event["specversion"] == "1.0" and event["id"] and event["source"] for event in events)
        assert len({event["id"] for event in events}) == len(events)
        assert {event["type"] for event in events} == {"dev.penstock.audit.allowed", "dev.penstock.audit.checkpoint"}
        assert events[0]["subject"] == "s0"
        assert events[0]["time"].startswith("2026-01-01T12:00:00")
        assert events == await exported(caller, format="cloudevents"), "the same at every export"

    with_gate(tmp_path / "penstock.db", test)


def test_a_record_is_proven_without_the_others(tmp_path: Path) -> None:
    async def test(caller: Caller) -> None:
        await changes(caller, 0, 9)
        first = await caller.call("audit.checkpoint")
        await changes(caller, 9, 9)
        second = await caller.call("audit.checkpoint")
        key = VerifierKey.parse((await caller.call("audit.key"))["public_key"])
        for seq in range(1, second["size"] + 1):
            found = await caller.call("audit.proof", seq=seq)
            (note,) = parse_notes(found["checkpoint"])
            assert note.is_signed_by(key)
            root = Checkpoint.parse(note.text).root
            proof = [base64.b64decode(item) for item in found["proof"]]
            leaf = base64.b64decode(found["leaf"])
            assert verify_inclusion(leaf, found["index"], found["size"], proof, root)
            assert found["record"]["seq"] == seq
        grown = await caller.call("audit.consistency", from_size=first["size"])
        roots = [Checkpoint.parse(parse_notes(grown[name])[0].text).root for name in ("from_checkpoint", "checkpoint")]
        proof = [base64.b64decode(item) for item in grown["proof"]]
        assert verify_consistency(grown["from_size"], roots[0], grown["size"], roots[1], proof)
        assert (await caller.refusal("audit.proof", seq=10**6)).code == "AUDIT_RECORD_NOT_FOUND"
        uncovered = second["size"] + 1
        assert (await caller.refusal("audit.proof", seq=uncovered)).code == "AUDIT_CHECKPOINT_NOT_FOUND"
        assert (await caller.refusal("audit.proof", seq=1, size=3)).code == "AUDIT_CHECKPOINT_NOT_FOUND"
        backwards = await caller.refusal("audit.consistency", from_size=second["size"], size=first["size"])
        assert backwards.code == "INVALID_ARGUMENTS"

    with_gate(tmp_path / "penstock.db", test)


TAMPERED = {
    "edit": "UPDATE audit SET operation = 'schema.read' WHERE seq = 2",
    "delete": "DELETE FROM audit WHERE seq = 2",
    "insert": "UPDATE audit SET seq = seq + 100 WHERE seq >= 3; UPDATE audit SET seq = seq - 99 WHERE seq >= 100;"
    " CREATE TEMP TABLE more AS SELECT * FROM audit WHERE seq = 2; UPDATE more SET seq = 3;"
    " INSERT INTO audit SELECT * FROM more; UPDATE audit_heads SET last_seq = last_seq + 1",
    "reorder": "UPDATE audit SET seq = -1 WHERE seq = 2; UPDATE audit SET seq = 2 WHERE seq = 3;"
    " UPDATE audit SET seq = 3 WHERE seq = -1",
    "truncate": "DELETE FROM audit WHERE seq > 3",
}


@pytest.mark.parametrize("how", TAMPERED)
def test_the_owner_finds_what_was_done_to_the_file(tmp_path: Path, how: str) -> None:
    path = tmp_path / "penstock.db"
    kept: dict[str, Any] = {}

    async def before(caller: Caller) -> None:
        await changes(caller, 0, 4)
        kept.update(await caller.call("audit.checkpoint"))
        found = await caller.call("audit.verify", against=kept["note"])
        assert found["intact"], found
        assert (found["checkpoints"], found["anchor_at"]) == (1, kept["at"])

    async def after(caller: Caller) -> None:
        found = await caller.call("audit.verify", against=kept["note"])
        assert not found["intact"], how
        assert found["broken_tenant"] == "default"

    with_gate(path, before)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(TAMPERED[how])
    with_gate(path, after)


def test_nothing_is_signed_that_was_altered_since_the_last_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "penstock.db"

    async def before(caller: Caller) -> None:
        await changes(caller, 0, 2)
        await caller.call("audit.checkpoint")
        await changes(caller, 2, 2)

    async def after(caller: Caller) -> None:
        refused = await caller.refusal("audit.checkpoint")
        assert refused.code == "AUDIT_TRAIL_BROKEN"
        assert "record 4" in refused.message

    with_gate(path, before)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE audit SET subject = 'other' WHERE seq = 4")
    with_gate(path, after)


def test_a_trail_that_was_put_back_as_a_whole_is_found_by_a_checkpoint_that_was_kept(tmp_path: Path) -> None:
    path = tmp_path / "penstock.db"
    kept: dict[str, Any] = {}

    async def before(caller: Caller) -> None:
        await changes(caller, 0, 2)

    async def later(caller: Caller) -> None:
        await changes(caller, 2, 3)
        kept.update(await caller.call("audit.checkpoint"))

    async def after(caller: Caller) -> None:
        assert (await caller.call("audit.verify"))["intact"], "nothing in the file tells"
        found = await caller.call("audit.verify", against=kept["note"])
        assert (found["intact"], found["reason"]) == (False, "truncated")
        assert (await caller.refusal("audit.verify", against="no note")).code == "AUDIT_CHECKPOINT_INVALID"

    with_gate(path, before)
    copy = path.read_bytes()
    with_gate(path, later)
    path.write_bytes(copy)
    with_gate(path, after)


def test_a_new_key_is_trusted_because_the_old_one_says_so(tmp_path: Path) -> None:
    async def test(caller: Caller) -> None:
        old = await caller.call("audit.key")
        await changes(caller, 0, 2)
        await caller.call("audit.checkpoint")
        new = await caller.call("audit.rotate_key")
        assert new["public_key"] != old["public_key"]
        await changes(caller, 2, 2)
        await caller.call("audit.checkpoint")
        assert (await caller.call("audit.verify"))["checkpoints"] == 2
        lines = await exported(caller)
        statements = [note for text in new["statements"] for note in parse_notes(text)]
        for trusted in (old["public_key"], new["public_key"]):
            keys = trusted_keys([VerifierKey.parse(trusted)], statements)
            notes = [note for line in lines if "checkpoint" in line for note in parse_notes(line["checkpoint"])]
            verifier = TrailVerifier("default", keys, checkpoints_by_tenant(notes)["default"])
            for line in lines:
                add_line(verifier, line)
            assert verifier.report().intact
        alone = verified(lines, old["public_key"])
        assert [problem.kind for problem in alone.problems] == ["unknown_key"]
        somebody = await caller.new_caller("audit:sign", "audit:read")
        assert (await caller.call("audit.key"))["public_key"] == new["public_key"]
        assert (await somebody.refusal("audit.rotate_key")).code == "SCOPE_REQUIRED"

    with_gate(tmp_path / "penstock.db", test)
    (key_file,) = tmp_path.glob("*.audit-key*")
    assert key_file.stat().st_mode & 0o077 == 0


def test_a_key_that_signed_and_is_gone_gets_no_successor(tmp_path: Path) -> None:
    key_file = tmp_path / "penstock.db.audit-key"

    async def test(caller: Caller) -> None:
        known = await caller.call("audit.key")
        kept = key_file.read_bytes()
        key_file.unlink()
        assert (await caller.call("audit.key"))["public_key"] != known["public_key"], "nothing was signed yet"
        key_file.write_bytes(kept)
        await changes(caller, 0, 2)
        await caller.call("audit.checkpoint")
        key_file.unlink()
        for operation in ("audit.key", "audit.checkpoint", "audit.rotate_key"):
            refused = await caller.refusal(operation)
            assert refused.code == "AUDIT_KEY_UNAVAILABLE", operation
            assert "server.audit_key" in (refused.hint or "")
        assert not key_file.exists()
        key_file.write_bytes(kept)
        key_file.chmod(0o600)
        assert await caller.call("audit.key") == known

    with_gate(tmp_path / "penstock.db", test)


def test_retention_leaves_what_is_held_and_the_trail_still_verifies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "AUDIT_REMOVED_LEAVES_MAX", 3)
    clock = ManualClock(NOON)

    async def test(caller: Caller) -> None:
        key = (await caller.call("audit.key"))["public_key"]
        await changes(caller, 0, 10)
        held = await caller.call("audit.hold", reason="case 7", subject="s4")
        await caller.call("audit.checkpoint")
        clock.advance(3 * DAY)
        await changes(caller, 10, 2)
        for _ in range(3):
            await apply_retention(caller.gate, Retention(audit_ms=DAY))
        listed = await caller.call("audit.list", limit=100)
        left = [item["subject"] for item in listed["items"] if item["operation"] == "schema.create"]
        assert left == ["s11", "s10", "s4"]
        assert (await caller.call("audit.verify"))["intact"]
        await caller.call("audit.checkpoint")
        report = verified(await exported(caller), key)
        assert report.intact, report.problems
        assert report.removed > 8
        refused = await caller.refusal("audit.release", hold_id="hold_nothing")
        assert refused.code == "AUDIT_HOLD_NOT_FOUND"
        assert [item["hold_id"] for item in (await caller.call("audit.holds"))["items"]] == [held["hold_id"]]
        await caller.call("audit.release", hold_id=held["hold_id"])
        clock.advance(3 * DAY)
        await apply_retention(caller.gate, Retention(audit_ms=DAY))
        listed = await caller.call("audit.list", limit=100)
        assert not [item for item in listed["items"] if item["subject"] == "s4"]
        assert (await caller.call("audit.verify"))["intact"]
        early = verified(await exported(caller), key)
        assert {problem.kind for problem in early.problems} == {"uncovered"}, (
            "nothing signed says that they were removed"
        )
        await caller.call("audit.checkpoint")
        assert verified(await exported(caller), key).intact

    with_gate(tmp_path / "penstock.db", test, clock)


def test_personal_data_is_erased_and_found_nowhere_in_the_trail(tmp_path: Path) -> None:
    path = tmp_path / "penstock.db"

    async def test(caller: Caller) -> None:
        key = (await caller.call("audit.key"))["public_key"]
        ada = await caller.new_caller("schema:write", name="Ada Lovelace")
        who = (await ada.principal()).id
        await changes(ada, 0, 3)
        await caller.call("audit.checkpoint")
        hold = await caller.call("audit.hold", reason="case 7", principal=who)
        assert (await caller.call("audit.redact", principal=who)) == {"erased": 0, "kept": 3, "next_after_seq": None}
        await caller.call("audit.release", hold_id=hold["hold_id"])
        part = await caller.call("audit.redact", principal=who, limit=2)
        assert (part["erased"], part["next_after_seq"] is not None) == (2, True)
        await caller.call("audit.redact", principal=who)
        lines = await exported(caller)
        created = [line for line in lines if line.get("operation") == "schema.create"]
        assert [line["principal"] for line in created] == ["erased"] * 3
        assert "Ada Lovelace" not in str(created)
        early = verified(lines, key)
        assert {problem.kind for problem in early.problems} == {"uncovered"}, "nothing signed says that it was erased"
        await caller.call("audit.checkpoint")
        report = verified(await exported(caller), key)
        assert report.intact, report.problems
        assert report.redacted == 3
        found = await caller.call("audit.verify")
        assert (found["intact"], found["redacted"]) == (True, 3)
        assert (await caller.refusal("audit.redact")).code == "INVALID_ARGUMENTS"
        newest = (await caller.call("audit.list", operation="audit.redact", outcome="allowed"))["items"]
        assert all(who not in str(item) for item in newest), "the record of the erasure does not name whom it erased"

    with_gate(path, test)


def test_a_redaction_of_an_earlier_release_is_put_on_record_afterwards(tmp_path: Path) -> None:
    async def test(caller: Caller) -> None:
        key = (await caller.call("audit.key"))["public_key"]
        await changes(caller, 0, 2)
        await caller.call("audit.checkpoint")
        # Earlier releases erased like this, and recorded no commitments.
        await redact_audit(caller.gate.services.platform, tenant="default", seqs=[1], names=["subject"])
        found = await caller.call("audit.verify")
        assert (found["intact"], found["reason"], found["broken_at"]) == (False, "redaction_unrecorded", 1)
        assert [problem.kind for problem in verified(await exported(caller), key).problems] == ["redaction_unrecorded"]
        assert (await caller.refusal("audit.proof", seq=1)).code == "AUDIT_TRAIL_BROKEN"
        accepted = await caller.call("audit.verify", allow_unrecorded_redactions=True)
        assert (accepted["intact"], accepted["unrecorded_redactions"]) == (True, 1)
        again = await caller.call("audit.redact", seq=1, fields=["subject"])
        assert (again["erased"], again["kept"]) == (0, 1)
        found = await caller.call("audit.verify")
        assert (found["intact"], found["redacted"], found["unrecorded_redactions"]) == (True, 1, 0)
        await caller.call("audit.checkpoint")
        assert verified(await exported(caller), key).intact

    with_gate(tmp_path / "penstock.db", test)


def test_the_record_of_a_redaction_stays_as_long_as_what_it_names(tmp_path: Path) -> None:
    clock = ManualClock(NOON)

    async def test(caller: Caller) -> None:
        key = (await caller.call("audit.key"))["public_key"]
        await changes(caller, 0, 4)
        await caller.call("audit.redact", seq=2, fields=["principal"])
        hold = await caller.call("audit.hold", reason="case 7", subject="s1")
        clock.advance(3 * DAY)
        await changes(caller, 4, 2)
        for _ in range(3):
            await apply_retention(caller.gate, Retention(audit_ms=DAY))
        await caller.call("audit.checkpoint")
        left = [line for line in await exported(caller) if "seq" in line]
        assert [line["operation"] for line in left[:2]] == ["schema.create", "audit.redact"]
        assert verified(await exported(caller), key).intact
        assert (await caller.call("audit.verify"))["intact"]
        proven = await caller.call("audit.proof", seq=2)
        assert proven["redacted_in"] == left[1]["seq"]
        count = len(left)
        await apply_retention(caller.gate, Retention(audit_ms=DAY))
        assert len([line for line in await exported(caller) if "seq" in line]) <= count + 2, (
            "it is no reason to try again"
        )
        await caller.call("audit.release", hold_id=hold["hold_id"])
        clock.advance(3 * DAY)
        await apply_retention(caller.gate, Retention(audit_ms=DAY))
        await caller.call("audit.checkpoint")
        lines = [line for line in await exported(caller) if "seq" in line]
        assert "audit.redact" not in [line["operation"] for line in lines]

    with_gate(tmp_path / "penstock.db", test, clock)


def test_holding_signing_and_erasing_need_scopes_of_their_own(tmp_path: Path) -> None:
    async def test(caller: Caller) -> None:
        reader = await caller.new_caller("audit:read")
        for name, arguments in (
            ("audit.hold", {"reason": "case 7"}),
            ("audit.release", {"hold_id": "hold_1"}),
            ("audit.redact", {"principal": "key:ada"}),
            ("audit.checkpoint", {}),
            ("audit.rotate_key", {}),
        ):
            refused = await reader.refusal(name, **arguments)
            assert refused.code == "SCOPE_REQUIRED", name
        tenant = await caller.new_caller("audit:*", tenant="shop")
        assert (await tenant.refusal("audit.verify", all_tenants=True)).code == "SCOPE_REQUIRED"
        assert (await tenant.refusal("audit.export", strangers=True)).code == "SCOPE_REQUIRED"
        assert (await tenant.call("audit.verify"))["tenants"] == 1

    with_gate(tmp_path / "penstock.db", test)


async def attempt(gate: Gate) -> None:
    await gate.identified(Credentials(bearer="nonsense"))
    with pytest.raises(Exception, match="UNAUTHENTICATED"):
        await gate.authenticate(Credentials(bearer="nonsense"), surface="rest", request_id="r1", remote="192.0.2.9")
    await gate.flush(final=True)


def test_the_operator_reads_and_verifies_what_strangers_tried(tmp_path: Path) -> None:
    async def test(caller: Caller) -> None:
        await attempt(caller.gate)
        (found,) = (await caller.call("audit.list", strangers=True))["items"]
        assert (found["principal"], found["remote"], found["code"]) == (ANONYMOUS.id, "192.0.2.9", "UNAUTHENTICATED")
        assert found["principal_kind"] == "anonymous"
        page = await caller.call("audit.export", strangers=True)
        assert (page["tenant"], len(page["items"])) == ("-", 1)
        await changes(caller, 0, 1)
        assert (await caller.call("audit.verify"))["tenants"] == 2

    with_gate(tmp_path / "penstock.db", test)
