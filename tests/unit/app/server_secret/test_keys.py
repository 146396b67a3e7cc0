"""Where the secret and the audit key of a database come from."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from penstock.app.drivers import make_storage
from penstock.app.gate import open_gate
from penstock.app.penstock import Penstock
from penstock.app.server_secret.keys import ServerKeys
from penstock.app.server_secret.sources import KeyFile, NamedKey
from penstock.app.settings.model import AuthSettings, ServerSettings, Settings
from penstock.app.settings.secrets import EnvironmentReference, FileReference
from penstock.base.errors import PenstockError

DATABASE = Path("data") / "penstock.db"
SECRET, AUDIT_KEY = EnvironmentReference("SERVER_SECRET"), EnvironmentReference("AUDIT_KEY")
NAMED = ServerSettings(secret=SECRET, audit_key=AUDIT_KEY)


def test_both_are_files_beside_the_database_unless_the_settings_name_a_source() -> None:
    keys = ServerKeys.chosen(Settings(), DATABASE)
    assert keys == ServerKeys.beside(DATABASE)
    assert keys.secret == KeyFile(Path("data") / "penstock.db.secret")
    assert keys.audit_key == KeyFile(Path("data") / "penstock.db.audit-key")
    assert keys.place == str(DATABASE)


def test_the_audit_key_is_beside_the_file_of_the_secret() -> None:
    keys = ServerKeys.chosen(Settings(auth=AuthSettings(pepper_file="/run/own.secret")), DATABASE)
    assert (keys.secret, keys.audit_key) == (KeyFile(Path("/run/own.secret")), KeyFile(Path("/run/own.audit-key")))


def test_each_is_named_by_a_setting_of_its_own() -> None:
    keys = ServerKeys.chosen(Settings(server=ServerSettings(secret=SECRET)), DATABASE)
    assert (keys.secret, keys.audit_key) == (NamedKey(SECRET), KeyFile(Path("data") / "penstock.db.audit-key"))
    keys = ServerKeys.chosen(Settings(server=ServerSettings(audit_key=AUDIT_KEY)), DATABASE)
    assert (keys.secret, keys.audit_key) == (KeyFile(Path("data") / "penstock.db.secret"), NamedKey(AUDIT_KEY))
    assert (NamedKey(SECRET).file, NamedKey(FileReference("a")).file) == (None, Path("a"))


async def open_named(path: Path, *, looks_only: bool = False) -> bytes:
    storage = make_storage(path, keys=ServerKeys.chosen(Settings(server=NAMED), path))
    async with (
        Penstock.open(storage=storage, perform=False) as penstock,
        open_gate(penstock, looks_only=looks_only) as gate,
    ):
        return gate.services.pepper


def test_a_gate_has_the_named_secret_and_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVER_SECRET", "0a" * 32)
    monkeypatch.setenv("AUDIT_KEY", "0b" * 32)
    assert asyncio.run(open_named(tmp_path / "penstock.db")) == b"\n" * 32
    assert [path.name for path in tmp_path.iterdir()] == ["penstock.db"]


@pytest.mark.parametrize(
    ("left_out", "code"), [("SERVER_SECRET", "PEPPER_UNREADABLE"), ("AUDIT_KEY", "AUDIT_KEY_UNAVAILABLE")]
)
def test_no_gate_opens_without_a_named_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left_out: str, code: str
) -> None:
    monkeypatch.setenv("SERVER_SECRET", "0a" * 32)
    monkeypatch.setenv("AUDIT_KEY", "0b" * 32)
    monkeypatch.delenv(left_out)
    with pytest.raises(PenstockError) as caught:
        asyncio.run(open_named(tmp_path / "penstock.db"))
    assert caught.value.code == code
    assert f"env {left_out}" in caught.value.message
    assert caught.value.hint == f"set {left_out} for this process"
    assert [path.name for path in tmp_path.iterdir()] == ["penstock.db"]


def test_a_look_does_not_need_the_audit_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVER_SECRET", "0a" * 32)
    monkeypatch.delenv("AUDIT_KEY", raising=False)
    assert asyncio.run(open_named(tmp_path / "penstock.db", looks_only=True)) == b"\n" * 32
