"""The two ends of the audit trail are sealed: whatever is cut off, removed or put back is found, now and later."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from penstock.app.gate import open_gate
from penstock.app.penstock import Penstock
from penstock.app.server_secret.keys import ServerKeys
from penstock.app.server_secret.secret import read_secret
from penstock.governance.audit.chain import GENESIS_HASH
from penstock.governance.audit.trails import FORGET_AUDIT
from penstock.operations.gate.audit_log import seal_with
from penstock.operations.gate.internal_callers import internal_call, system_principal
from penstock.operations.gate.pipeline import Gate
from penstock.runtime.ports.platform import AuditEntry
from penstock.runtime.stores.sqlite.maintenance.backups import check_integrity
from penstock.runtime.stores.sqlite.schema import migrations
from penstock.runtime.stores.sqlite.schema.sql_functions import register_functions
from penstock.runtime.tables.audit.removal import forget_audit
from tests.scenarios.test_repeated_calls import call
from tests.waiting import SECONDS_MAX

TAMPERED = {
    "the newest record is cut off": ("DELETE FROM audit WHERE seq = (SELECT max(seq) FROM audit)", "end_missing"),
    "the oldest record is cut off": ("DELETE FROM audit WHERE seq = 1", "beginning_missing"),
    "all records are removed": ("DELETE FROM audit", "beginning_missing"),
    "the head is removed": ("DELETE FROM audit_heads", "head_missing"),
    "the head is moved back with the end": (
        "DELETE FROM audit WHERE seq = (SELECT max(seq) FROM audit);"
        "UPDATE audit_heads SET last_seq = (SELECT max(seq) FROM audit),"
        " last_hash = (SELECT hash FROM audit ORDER BY seq DESC LIMIT 1)",
        "head_altered",
    ),
    "everything is removed": ("DELETE FROM audit; DELETE FROM audit_heads", "chain_missing"),
}


async def some_changes(gate: Gate, first: int = 0) -> None:
    for number in range(first, first + 3):
        await call(gate, "schema.create", id=f"s{number}", schema={})


def tamper(path: Path, statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(statements)


async def verify(path: Path, **known: Any) -> Any:
    """What `audit.verify` says before this process appends a record."""
    async with Penstock.open(path) as penstock, open_gate(penstock) as gate:
        return await call(gate, "audit.verify", **known)


@pytest.mark.parametrize("name", TAMPERED)
def test_what_is_cut_off_or_removed_is_found_and_stays_found(tmp_path: Path, name: str) -> None:
    statements, reason = TAMPERED[name]
    path = tmp_path / "penstock.db"

    async def test() -> None:
        async with Penstock.open(path) as penstock, open_gate(penstock) as gate:
            await some_changes(gate)
            found = await call(gate, "audit.verify")
            assert (found["intact"], found["first_seq"], found["reason"]) == (True, 1, None)
        assert check_integrity(path).ok
        tamper(path, statements)
        if name != "the head is moved back with the end":  # without the key that looks like a head
            assert not check_integrity(path).ok
        found = await verify(path)
        assert (found["intact"], found["reason"]) == (False, reason)
        async with Penstock.open(path) as penstock, open_gate(penstock) as gate:
            await some_changes(gate, first=3)
            again = await call(gate, "audit.verify")
            assert not again["intact"], "a later record healed it"

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))


def test_a_trail_that_was_put_back_as_a_whole_is_found_by_what_was_kept_elsewhere(tmp_path: Path) -> None:
    path, copy = tmp_path / "penstock.db", tmp_path / "copy.db"

    async def test() -> None:
        async with Penstock.open(path) as penstock, open_gate(penstock) as gate:
            await some_changes(gate)
            await gate.flush()
        copy.write_bytes(path.read_bytes())
        async with Penstock.open(path) as penstock, open_gate(penstock) as gate:
            await some_changes(gate, first=3)
            kept = await call(gate, "audit.verify")
        path.write_bytes(copy.read_bytes())
        assert (await verify(path))["intact"], "nothing in the file tells"
        known = {"seq": kept["last_seq"], "hash": kept["last_hash"]}
        async with Penstock.open(path) as penstock, open_gate(penstock) as gate:
            assert (await call(gate, "audit.verify", **known))["reason"] == "rolled_back"
            await some_changes(gate, first=6)
            await some_changes(gate, first=9)
            assert (await call(gate, "audit.verify", **known))["reason"] == "altered"

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))


def test_forgetting_old_records_moves_the_sealed_beginning(tmp_path: Path) -> None:
    path = tmp_path / "penstock.db"

    async def test() -> None:
        async with Penstock.open(path) as penstock, open_gate(penstock) as gate:
            await some_changes(gate)
            retention = system_principal("retention", "audit:delete")
            assert (await internal_call(gate, retention, FORGET_AUDIT, {"before_seq": 3})).count == 2
            found = await call(gate, "audit.verify")
            assert (found["intact"], found["first_seq"]) == (True, 3), found["reason"]
        assert check_integrity(path).ok

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))


def test_forgetting_old_records_does_not_seal_what_somebody_altered(tmp_path: Path) -> None:
    path = tmp_path / "penstock.db"

    async def test() -> None:
        async with Penstock.open(path) as penstock, open_gate(penstock) as gate:
            await some_changes(gate)
        tamper(path, TAMPERED["the head is moved back with the end"][0])
        async with Penstock.open(path) as penstock, open_gate(penstock) as gate:
            platform, seal = gate.services.platform, seal_with(gate.services.pepper)
            await forget_audit(platform, tenant="default", before_seq=2, seal=seal)
            assert (await call(gate, "audit.verify"))["reason"] == "head_altered"

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))


def make_file_without_heads(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file in the format before heads, with the records that a release of that time wrote."""
    seal = seal_with(read_secret(ServerKeys.beside(path).secret))
    with monkeypatch.context() as past, closing(sqlite3.connect(path, isolation_level=None)) as connection:
        past.setattr(migrations, "SCHEMA_VERSION", 8)
        register_functions(connection)
        migrations.migrate(connection, str(path))
        previous = GENESIS_HASH
        for seq in (1, 2, 3):
            entry = AuditEntry(
                at=seq, tenant="default", principal="ada", surface="cli", operation="schema.create", outcome="allowed"
            )
            sealed = seal(previous, seq, entry)
            connection.execute(
                "INSERT INTO audit (tenant, seq, at, principal, surface, operation, outcome, previous_hash,"
                " hash, count) VALUES (?,?,?,?,?,?,?,?,?,1)",
                ("default", seq, seq, "ada", "cli", "schema.create", "allowed", previous, sealed),
            )
            previous = sealed


def test_the_trails_of_an_older_file_are_sealed_when_something_is_appended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "penstock.db"

    async def test() -> None:
        make_file_without_heads(path, monkeypatch)
        assert (await verify(path))["intact"]
        async with Penstock.open(path) as penstock, open_gate(penstock) as gate:
            await some_changes(gate, first=3)
            assert (await call(gate, "audit.verify"))["intact"]
        assert check_integrity(path).ok
        tamper(path, "DELETE FROM audit WHERE seq = 1")
        assert (await verify(path))["reason"] == "beginning_missing"

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))
