"""A store and its secret belong together; whoever looks makes nothing, and what is made is its owner's alone."""

import shutil
import sqlite3
import stat
from pathlib import Path

import pytest

from penstock.app.gate import local_owner, open_gate
from penstock.app.penstock import Penstock
from penstock.app.server_secret.secret import FINGERPRINT_MARK, fingerprint, read_secret
from penstock.app.server_secret.sources import KeyFile
from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject
from penstock.operations.gate.context import Request
from penstock.operations.gate.pipeline import AnsweredCall
from tests.live.cli.processes import GREET, STEPS, Shop


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


async def call(path: Path, operation: str, arguments: JsonObject, *, looks_only: bool = False) -> object:
    """An operation by the owner of a file."""
    async with Penstock.open(path, perform=False) as penstock, open_gate(penstock, looks_only=looks_only) as gate:
        request = Request(
            operation=operation, arguments=arguments, principal=local_owner(), surface="cli", request_id="test"
        )
        outcome = await gate.call(request)
        assert isinstance(outcome, AnsweredCall), outcome
        return outcome.reply


def files(folder: Path) -> list[Path]:
    return list(folder.iterdir())


KEY: JsonObject = {"name": "reader", "scopes": ["workflow:read"]}


@pytest.mark.anyio
async def test_a_copied_database_without_its_secret_is_refused_and_gets_no_other(tmp_path: Path) -> None:
    path = tmp_path / "penstock.db"
    await call(path, "key.create", KEY)
    copied = tmp_path / "elsewhere" / "copy.db"
    copied.parent.mkdir()
    shutil.copy(path, copied)
    for looks_only in (True, False):
        with pytest.raises(PenstockError) as caught:
            await call(copied, "audit.verify", {}, looks_only=looks_only)
        assert caught.value.code == "PEPPER_MISSING"
        assert fingerprint(read_secret(KeyFile(Path(f"{path}.secret")))) in caught.value.message
    assert [path.name for path in files(copied.parent)] == ["copy.db"]
    shutil.copy(f"{path}.secret", f"{copied}.secret")
    await call(copied, "audit.verify", {})


@pytest.mark.anyio
async def test_a_secret_that_did_not_seal_a_store_is_refused_by_name(tmp_path: Path) -> None:
    path, other = tmp_path / "penstock.db", tmp_path / "other.db"
    await call(path, "key.create", KEY)
    await call(other, "key.create", KEY)
    theirs = fingerprint(read_secret(KeyFile(Path(f"{other}.secret"))))
    ours = fingerprint(read_secret(KeyFile(Path(f"{path}.secret"))))
    shutil.copy(f"{other}.secret", f"{path}.secret")
    with pytest.raises(PenstockError) as caught:
        await call(path, "audit.verify", {})
    assert caught.value.code == "PEPPER_MISMATCH"
    assert theirs in caught.value.message
    assert ours in caught.value.message


@pytest.mark.anyio
@pytest.mark.parametrize("code", ["PEPPER_MISSING", "PEPPER_MISMATCH"])
async def test_a_store_from_before_there_were_fingerprints_is_recognised_by_its_audit_trail(
    tmp_path: Path, code: str
) -> None:
    path, other = tmp_path / "penstock.db", tmp_path / "other.db"
    for made in (path, other):
        await call(made, "key.create", KEY)
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM marks WHERE name = ?", (FINGERPRINT_MARK,))
    connection.close()
    own = shutil.move(f"{path}.secret", tmp_path / "kept")
    if code == "PEPPER_MISMATCH":
        shutil.copy(f"{other}.secret", f"{path}.secret")
    with pytest.raises(PenstockError) as caught:
        await call(path, "audit.verify", {})
    assert caught.value.code == code
    shutil.copy(own, f"{path}.secret")
    await call(path, "audit.verify", {})
    # From now on its fingerprint is known.
    shutil.copy(f"{other}.secret", f"{path}.secret")
    with pytest.raises(PenstockError, match="fingerprint"):
        await call(path, "audit.verify", {})


LOOKS = (
    ("runs", "list"),
    ("workflow", "list"),
    ("workflow", "get", "nothing"),
    ("key", "list"),
    ("audit", "list"),
    ("audit", "verify"),
    ("schedule", "list"),
    ("server", "check"),
    ("server", "migrate"),
    ("config", "show"),
)


@pytest.mark.parametrize("command", LOOKS, ids=" ".join)
def test_looking_creates_nothing(shop: Shop, command: tuple[str, ...]) -> None:
    shop.run(*command)
    assert list(shop.folder.iterdir()) == []
    (shop.folder / "penstock.db").touch()
    shop.run(*command)
    assert [path.name for path in shop.folder.iterdir()] == ["penstock.db"]
    assert (shop.folder / "penstock.db").stat().st_size == 0


def test_listing_the_tools_of_a_folder_leaves_nothing_in_it(shop: Shop) -> None:
    listed = shop.run("mcp", "tools")
    assert (listed.returncode, "tools" in listed.stdout) == (0, True), listed.stderr
    assert files(shop.folder) == []


def test_looking_at_a_database_that_was_never_sealed_makes_no_secret(shop: Shop) -> None:
    workflow = shop.write("greet.yaml", GREET)
    ran = shop.run("run", workflow, "--input", '{"name": "you"}', "--steps", str(STEPS))
    assert ran.returncode == 0, ran.stderr
    there = {path.name for path in shop.folder.iterdir()}
    for command in LOOKS:
        shop.run(*command)
        assert {path.name for path in shop.folder.iterdir()} == there, command


def test_database_log_backup_and_secret_are_their_owners_alone(shop: Shop) -> None:
    path = shop.folder / "penstock.db"

    def modes() -> dict[str, int]:
        files = (item for item in shop.folder.iterdir() if item.is_file())
        return {item.name: stat.S_IMODE(item.stat().st_mode) for item in files}

    made = shop.run("key", "create", "--name", "owner", "--scopes", '["*"]')
    assert made.returncode == 0, made.stderr
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("SELECT count(*) FROM runs").fetchall()
    backed_up = shop.run("server", "backup", "copy.db")
    assert backed_up.returncode == 0, backed_up.stderr
    found = modes()
    connection.close()
    assert {"penstock.db", "penstock.db-wal", "penstock.db-shm", "penstock.db.secret", "copy.db"} <= set(found)
    assert set(found.values()) == {0o600}
