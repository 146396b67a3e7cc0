"""The file with the key that signs checkpoints."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from penstock.app.server_secret.audit_keys import AuditKeyFile, NamedAuditKey
from penstock.app.server_secret.sources import NamedKey
from penstock.app.settings.secrets import EnvironmentReference
from penstock.base.errors import Conflict, Rejected, Unavailable
from penstock.governance.audit.checkpoints import SigningKey


def test_the_first_use_makes_a_key_that_only_its_owner_can_read(tmp_path: Path) -> None:
    keys = AuditKeyFile(tmp_path / "penstock.db.audit-key", "penstock-1")
    assert not keys.exists()
    key = asyncio.run(keys.signing_key())
    assert keys.exists()
    assert keys.path.stat().st_mode & 0o077 == 0
    assert asyncio.run(AuditKeyFile(keys.path, "penstock-1").signing_key()) == key


def test_a_key_is_replaced_only_if_it_is_the_one_that_is_known(tmp_path: Path) -> None:
    keys = AuditKeyFile(tmp_path / "key", "penstock-1")
    old = asyncio.run(keys.signing_key())
    new = SigningKey("penstock-1", keys.new_seed())
    asyncio.run(keys.replace(old, new))
    assert asyncio.run(keys.signing_key()) == new
    with pytest.raises(Conflict, match="PRECONDITION_FAILED"):
        asyncio.run(keys.replace(old, SigningKey("penstock-1", keys.new_seed())))
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


def test_a_prepared_key_is_found_by_another_process_and_used_once(tmp_path: Path) -> None:
    keys, other = (AuditKeyFile(tmp_path / "key", "penstock-1") for _ in range(2))
    old = asyncio.run(keys.signing_key())
    wanted, unwanted = (SigningKey("penstock-1", keys.new_seed()) for _ in range(2))
    for new in (wanted, unwanted):
        asyncio.run(keys.prepare(new))
    assert asyncio.run(keys.signing_key()) == old
    assert {key.seed for key in asyncio.run(other.prepared())} == {wanted.seed, unwanted.seed}
    assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.iterdir())
    asyncio.run(other.discard(unwanted))
    asyncio.run(other.replace(old, wanted))
    asyncio.run(keys.replace(old, wanted))  # the process that prepared it is not late, but done
    assert asyncio.run(keys.signing_key()) == wanted
    assert asyncio.run(keys.prepared()) == []
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


def test_a_file_that_others_can_read_or_that_is_no_key_is_refused(tmp_path: Path) -> None:
    keys = AuditKeyFile(tmp_path / "key", "penstock-1")
    asyncio.run(keys.signing_key())
    keys.path.chmod(0o644)
    with pytest.raises(Rejected, match="AUDIT_KEY_EXPOSED"):
        asyncio.run(keys.signing_key())
    keys.path.chmod(0o600)
    for content in ("aa", "not hexadecimal"):
        keys.path.write_text(content)
        with pytest.raises(Unavailable, match="AUDIT_KEY_UNAVAILABLE"):
            asyncio.run(keys.signing_key())
    with pytest.raises(Unavailable, match="AUDIT_KEY_UNAVAILABLE"):
        asyncio.run(AuditKeyFile(tmp_path / "no" / "folder", "penstock-1").signing_key())


def test_a_named_key_is_the_one_of_the_source_for_as_long_as_the_process_lives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AUDIT_KEY", "0a" * 32)
    keys = NamedAuditKey(NamedKey(EnvironmentReference("AUDIT_KEY")), "penstock-1")
    key = asyncio.run(keys.signing_key())
    assert (keys.exists(), key) == (True, SigningKey("penstock-1", bytes.fromhex("0a" * 32)))
    monkeypatch.setenv("AUDIT_KEY", "0b" * 32)
    assert asyncio.run(keys.signing_key()) == key


def test_a_named_key_is_never_replaced_by_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUDIT_KEY", "0a" * 32)
    keys = NamedAuditKey(NamedKey(EnvironmentReference("AUDIT_KEY")), "penstock-1")
    old, new = asyncio.run(keys.signing_key()), SigningKey("penstock-1", keys.new_seed())
    for refused in (keys.prepare(new), keys.replace(old, new)):
        with pytest.raises(Unavailable, match="comes from env AUDIT_KEY, which this server cannot change"):
            asyncio.run(refused)
    assert asyncio.run(keys.prepared()) == []


@pytest.mark.parametrize(("content", "told"), [(None, "not set"), ("0a" * 31, "not a key"), ("no key", "not a key")])
def test_a_named_key_that_is_not_there_or_is_no_key_is_refused(
    monkeypatch: pytest.MonkeyPatch, content: str | None, told: str
) -> None:
    monkeypatch.delenv("AUDIT_KEY", raising=False)
    if content is not None:
        monkeypatch.setenv("AUDIT_KEY", content)
    with pytest.raises(Unavailable, match="AUDIT_KEY_UNAVAILABLE") as caught:
        asyncio.run(NamedAuditKey(NamedKey(EnvironmentReference("AUDIT_KEY")), "penstock-1").signing_key())
    assert told in caught.value.message
    assert "server.audit_key" in caught.value.message
    assert content is None or content not in str(caught.value)
