"""The secret of a database, from a named source. `test_store_secret` has the one in a file."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from penstock.app.drivers import make_storage
from penstock.app.server_secret.secret import fingerprint, open_secret, read_secret
from penstock.app.server_secret.sources import KeyFile, NamedKey
from penstock.app.settings.secrets import CommandReference, EnvironmentReference, FileReference
from penstock.base.errors import PenstockError, Rejected

SOURCE = NamedKey(EnvironmentReference("SERVER_SECRET"))


async def opened(path: Path, source: KeyFile | NamedKey) -> bytes | None:
    storage = make_storage(path)
    await storage.store.open()
    try:
        assert storage.database is not None
        return await open_secret(source, str(path), storage.database)
    finally:
        await storage.store.close()


def test_a_secret_comes_from_a_variable_a_file_and_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVER_SECRET", "0a" * 32)
    file = tmp_path / "kept"
    file.write_text("0A" * 32 + "\n")
    file.chmod(0o600)
    for reference in (
        EnvironmentReference("SERVER_SECRET"),
        FileReference(str(file)),
        CommandReference(("cat", str(file))),
    ):
        assert read_secret(NamedKey(reference)) == b"\n" * 32


@pytest.mark.parametrize("content", ["0a" * 31, "0a" * 33, "a secret", "0" * 63])
def test_a_value_that_is_no_secret_is_refused_and_not_repeated(monkeypatch: pytest.MonkeyPatch, content: str) -> None:
    monkeypatch.setenv("SERVER_SECRET", content)
    with pytest.raises(Rejected, match="PEPPER_INVALID") as caught:
        read_secret(SOURCE)
    assert content not in str(caught.value)
    assert "openssl rand -hex 32" in (caught.value.hint or "")


def test_a_file_that_a_setting_names_is_never_made(tmp_path: Path) -> None:
    with pytest.raises(PenstockError, match="PEPPER_UNREADABLE"):
        asyncio.run(opened(tmp_path / "penstock.db", NamedKey(FileReference(str(tmp_path / "secret")))))
    assert [path.name for path in tmp_path.iterdir()] == ["penstock.db"]


def test_a_database_keeps_its_secret_when_the_file_becomes_a_named_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, file = tmp_path / "penstock.db", tmp_path / "penstock.db.secret"
    secret = asyncio.run(opened(path, KeyFile(file)))
    assert secret is not None
    monkeypatch.setenv("SERVER_SECRET", file.read_text())
    file.unlink()
    assert asyncio.run(opened(path, SOURCE)) == secret
    monkeypatch.setenv("SERVER_SECRET", "0a" * 32)
    with pytest.raises(Rejected, match="PEPPER_MISMATCH") as caught:
        asyncio.run(opened(path, SOURCE))
    assert "env SERVER_SECRET" in caught.value.message
    assert fingerprint(secret) in caught.value.message
    with pytest.raises(PenstockError, match="PEPPER_MISSING"):
        asyncio.run(opened(path, KeyFile(file)))
    assert not file.exists()
