"""Scheduled backups: made when they are due, on record, restorable; a failure keeps what is there and is told."""

from __future__ import annotations

import resource
import shutil
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import msgspec
import pytest

from penstock.app.drivers import maintenance_of, make_storage
from penstock.app.gate import local_owner, open_gate
from penstock.app.maintenance import restore_on_record
from penstock.app.penstock import Penstock
from penstock.app.serving.backups import (
    BackupChoices,
    BackupKeeper,
    BackupStatus,
    backup_choices,
    keep_backups,
    with_backup_check,
)
from penstock.app.serving.server import ServerOptions, open_application
from penstock.app.settings.sources import InvalidSettings, load_settings
from penstock.base import limits
from penstock.base.clock import ManualClock
from penstock.operations.gate.context import ServerParts
from penstock.operations.system.health import is_ready, public_checks
from penstock.runtime.ports.platform import AuditQuery
from penstock.runtime.tables.audit.records import list_audit
from tests.unit.operations.conftest import Caller
from tests.waiting import until

pytestmark = pytest.mark.anyio
NOON = 1_767_268_800_000
HOUR = 60 * 60 * 1000
HOURLY = BackupChoices(every_ms=HOUR, keep=3)


class Server:
    """A server on a store, as far as backups are concerned."""

    def __init__(self, owner: Caller, clock: ManualClock, keeper: BackupKeeper, folder: Path) -> None:
        self.owner, self.clock, self.keeper, self.folder = owner, clock, keeper, folder

    @property
    def names(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())

    async def look(self, *, hours: float = 0) -> None:
        self.clock.advance(int(hours * HOUR))
        await self.keeper.look()

    async def health(self) -> dict[str, object]:
        found: dict[str, object] = msgspec.to_builtins(await self.owner.call("system.health"))
        return found

    async def records(self, operation: str) -> list[tuple[str, str | None, str | None, str]]:
        query = AuditQuery(tenant="default", operation=operation, oldest_first=True, limit=100)
        found = (await list_audit(self.owner.gate.services.platform, query)).records
        return [(each.entry.outcome, each.entry.code, each.entry.subject, each.entry.principal) for each in found]


@asynccontextmanager
async def serving(
    tmp_path: Path, choices: BackupChoices = HOURLY, *, clock: ManualClock | None = None, store: str = "penstock.db"
) -> AsyncIterator[Server]:
    folder, clock, status = tmp_path / "backups", clock or ManualClock(NOON), BackupStatus()
    folder.mkdir(exist_ok=True)
    storage = make_storage(tmp_path / store, backup_folder=str(folder))

    async def no_checks() -> dict[str, str]:
        return {"store": "ok"}

    parts = ServerParts(checks=with_backup_check(no_checks, status))
    opening = Penstock.open(tmp_path / store, storage=storage, clock=clock, perform=False)
    async with opening as penstock, open_gate(penstock, server=parts) as gate:
        owner = Caller(gate, local_owner(), penstock)
        yield Server(owner, clock, BackupKeeper(gate, choices, status), folder)


@contextmanager
def full_disk(monkeypatch: pytest.MonkeyPatch, *, bytes_max: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_max, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def test_a_backup_is_made_when_it_is_due_on_record_and_in_the_list_and_the_health(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        assert (await server.health())["last_backup_at"] is None
        await server.look()
        await server.look(hours=0.9)
        [name] = server.names
        assert name == "penstock-2026-01-01T12-00-00.000Z-scheduled.db"
        assert maintenance_of(server.folder / name).check().ok
        await server.look(hours=0.1)
        assert len(server.names) == 2
        assert await server.records("backup.create_scheduled") == [
            ("allowed", None, made, "system:backups") for made in server.names
        ]
        manual = (await server.owner.call("backup.create"))["name"]
        items = (await server.owner.call("backup.list"))["items"]
        assert {item["name"]: (item["scheduled"], item["verified"]) for item in items} == {
            **{made: (True, True) for made in server.names if made != manual},
            manual: (False, True),
        }
        health = await server.health()
        assert health["checks"] == {"store": "ok", "backups": "ok", "retention": "ok", "executors": "ok"}
        assert health["last_backup_at"] == "2026-01-01T13:00:00.000Z"
        tenant = await server.owner.new_caller("*", tenant="acme")
        assert (await tenant.call("system.health"))["last_backup_at"] is None


async def test_only_own_scheduled_backups_are_deleted_the_oldest_first_and_on_record(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        manual = (await server.owner.call("backup.create"))["name"]
        strangers = ["penstock-2001-01-01T00-00-00.000Z-scheduled.db", "penstock-2001-01-01T00-00-00.000Z.db", "my.db"]
        for name in strangers:
            (server.folder / name).write_bytes(b"of somebody else")
        for _ in range(3):
            await server.look(hours=1)
        made = [name for name in server.names if "scheduled" in name and name not in strangers]
        # One that somebody put in the place of a backup is not ours any more.
        (server.folder / made[1]).write_bytes(b"changed")
        for _ in range(3):
            await server.look(hours=1)
        left = [name for name in server.names if name not in (*strangers, manual)]
        assert len(left) == 4
        assert made[1] in left
        assert {made[0], made[2]}.isdisjoint(left)
        assert {*strangers, manual} <= set(server.names)
        deleted = await server.records("backup.rotate")
        assert deleted == [("allowed", None, name, "system:backups") for name in (made[0], made[2])]


async def test_backups_younger_than_keep_for_stay_however_many_there_are(tmp_path: Path) -> None:
    choices = BackupChoices(every_ms=HOUR, keep=2, keep_for_ms=5 * HOUR)
    async with serving(tmp_path, choices) as server:
        for _ in range(9):
            await server.look(hours=1)
        assert len(server.names) == 5
        server.clock.advance(1000 * HOUR)
        await server.look()
        assert len(server.names) == 2, "the newest ones stay, however old they are"


async def test_a_failed_backup_keeps_the_old_ones_and_is_a_finding_until_one_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path) as server:
        for _ in range(3):
            await server.look(hours=1)
        kept = server.names
        size = (server.folder / kept[0]).stat().st_size
        # The disk fills up while the copy is made: files cannot grow to the size of a backup.
        with full_disk(monkeypatch, bytes_max=size // 2):
            await server.look(hours=1)
        assert server.names == kept
        failing = server.keeper.status.health()
        assert failing.startswith("failing since 2026-01-01T16:00:00.000Z: STORE_FULL")
        assert failing.endswith("the last backup was made at 2026-01-01T15:00:00.000Z")
        checks = {"store": "ok", "backups": failing}
        assert is_ready(checks)
        assert public_checks(checks)["backups"] == "failing"
        await server.look()
        assert server.names == kept, "it waits before it tries again"
        await server.look(hours=limits.BACKUP_RETRY_MS / HOUR)
        assert len(server.names) == 3
        assert server.names != kept
        assert server.keeper.status.health() == "ok"
        assert server.keeper.status.failures == 1
        figures = {gauge.name: gauge.read()[()] for gauge in server.keeper.status.gauges()}
        assert figures["penstock_backup_failures"] == 1
        assert figures["penstock_backup_last_size_bytes"] == (server.folder / server.names[-1]).stat().st_size
        assert figures["penstock_backup_last_success_timestamp_seconds"] == server.clock.now_ms() / 1000


async def test_a_folder_that_vanishes_is_a_finding_and_is_never_made(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        await server.look()
        elsewhere = tmp_path / "unmounted"
        server.folder.rename(elsewhere)
        await server.look(hours=1)
        assert not server.folder.exists()
        assert "BACKUP_FOLDER_UNAVAILABLE" in server.keeper.status.health()
        assert ("refused", "BACKUP_FOLDER_UNAVAILABLE") in [
            record[:2] for record in await server.records("backup.create_scheduled")
        ]
        elsewhere.rename(server.folder)
        await server.look(hours=1)
        assert len(server.names) == 2
        assert server.keeper.status.health() == "ok"


async def test_a_new_process_goes_on_with_the_schedule_of_the_last_one(tmp_path: Path) -> None:
    clock = ManualClock(NOON)
    for _ in range(5):
        async with serving(tmp_path, clock=clock) as server:
            await server.look(hours=0.5)
            await server.look()
    async with serving(tmp_path, clock=clock) as server:
        assert len(server.names) == 3
        await server.look(hours=30)
        assert len(server.names) == 3
        assert server.names[-1].startswith("penstock-2026-01-02T")


async def test_two_servers_on_one_store_make_one_backup(tmp_path: Path) -> None:
    clock = ManualClock(NOON)
    async with serving(tmp_path, clock=clock) as one, serving(tmp_path, clock=clock) as other:
        for _ in range(3):
            clock.advance(HOUR)
            await other.look()
            await one.look()
        assert len(one.names) == 3
        assert other.keeper.status.health() == one.keeper.status.health() == "ok"


async def test_two_stores_in_one_folder_delete_only_their_own(tmp_path: Path) -> None:
    clock = ManualClock(NOON)
    async with serving(tmp_path, clock=clock) as one, serving(tmp_path, clock=clock, store="other.db") as other:
        for _ in range(5):
            clock.advance(HOUR)
            await one.look()
            clock.advance(1)
            await other.look()
        assert len(one.names) == 6
        mine = [item for item in (await one.owner.call("backup.list"))["items"] if item["verified"]]
        assert len(mine) == 3
        # Both want the same name: the second is refused, and takes nothing away.
        clock.advance(HOUR)
        before = one.names
        await one.look()
        await other.look()
        assert len(set(one.names) - set(before)) == 1
        assert "BACKUP_EXISTS" in other.keeper.status.health()


async def test_a_clock_that_was_ahead_stops_neither_backups_nor_lets_the_newest_be_deleted(tmp_path: Path) -> None:
    async with serving(tmp_path, BackupChoices(every_ms=HOUR, keep=1)) as server:
        await server.look(hours=1000)
        ahead = server.names
        await server.look(hours=-999)
        assert len(server.names) == 1
        assert server.names != ahead


async def test_a_scheduled_backup_and_the_secret_are_all_that_a_restore_needs(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        key = (await server.owner.call("key.create", name="reports", scopes=["workflow:read"]))["key"]["id"]
        await server.look()
        [name] = server.names
    new = tmp_path / "new"
    new.mkdir()
    shutil.copy(tmp_path / "penstock.db.secret", new / "penstock.db.secret")
    done, pending = await restore_on_record(tmp_path / "backups" / name, new / "penstock.db")
    assert (done.path, pending) == (str(new / "penstock.db"), None)
    async with serving(new) as restored:
        assert key in [item["id"] for item in (await restored.owner.call("key.list"))["items"]]
        assert (await restored.owner.call("audit.verify"))["intact"] is True


async def test_a_server_makes_backups_by_itself(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        gate, status = server.owner.gate, BackupStatus()
        async with keep_backups(gate, BackupChoices(every_ms=HOUR, look_seconds=0.01), status):
            await until(lambda: status.made_at == NOON)
        assert "penstock_backup_failures" in {gauge.name for gauge in gate.services.telemetry.gauges}


async def test_a_server_with_a_schedule_has_its_health_and_makes_the_first_backup_at_its_start(tmp_path: Path) -> None:
    (tmp_path / "backups").mkdir()
    file = tmp_path / "penstock.yaml"
    file.write_text("storage: {path: penstock.db, backup_folder: backups, backups: {every: 24h}}", encoding="utf-8")
    settings = load_settings(file, environment={}).settings
    storage = make_storage(settings.storage.path, backup_folder=settings.storage.backup_folder)
    opening = Penstock.open(settings.storage.path, storage=storage, perform=False)
    async with opening as penstock, open_application(penstock, ServerOptions.of(settings)) as (_, gate):
        await until(lambda: len(list((tmp_path / "backups").glob("penstock-*-scheduled.db"))) == 1)
        assert (await gate.services.checks())["backups"] == "ok"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("storage: {backups: {every: 24h}}", "needs `storage.backup_folder`"),
        ("storage: {backup_folder: b, backups: {every: 1m, keep_for: 30d}}", "keeps more than 200 backups"),
        ("storage: {backup_folder: b, backups: {every: 1s}}", "storage.backups.every"),
        ("storage: {backup_folder: b, backups: {every: 1h, keep: 0}}", "storage.backups.keep"),
    ],
)
def test_a_schedule_that_cannot_be_kept_is_a_mistake_in_the_settings(tmp_path: Path, text: str, wrong: str) -> None:
    file = tmp_path / "penstock.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidSettings) as caught:
        load_settings(file)
    assert any(wrong in f"{finding.location} {finding.message}" for finding in caught.value.findings)


def test_a_schedule_of_the_settings_is_the_schedule_of_the_server(tmp_path: Path) -> None:
    file = tmp_path / "penstock.yaml"
    file.write_text("storage: {backup_folder: b, backups: {every: 24h, keep: 5, keep_for: 14d}}", encoding="utf-8")
    day = 24 * HOUR
    assert backup_choices(load_settings(file).settings) == BackupChoices(every_ms=day, keep=5, keep_for_ms=14 * day)
    file.write_text("storage: {backup_folder: b}", encoding="utf-8")
    assert backup_choices(load_settings(file).settings) is None
