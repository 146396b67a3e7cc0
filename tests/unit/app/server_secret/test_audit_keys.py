"""The file with the key that signs checkpoints."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from penstock.app.server_secret.audit_keys import AuditKeyFile
from penstock.base.errors import Conflict, Rejected, Unavailable
from penstock.governance.audit.checkpoints import SigningKey


def test_the_key_is_beside_the_secret_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    keys = AuditKeyFile.beside(tmp_path / "penstock.db.secret", "1")
    path = tmp_path / "penstock.db.audit-key"
    assert (keys.path, keys.name) == (path, "penstock-1")
    assert not keys.exists()
    key = asyncio.run(keys.signing_key())
    assert keys.exists()
    assert path.stat().st_mode & 0o077 == 0
    assert asyncio.run(AuditKeyFile(path, "penstock-1").signing_key()) == key


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
