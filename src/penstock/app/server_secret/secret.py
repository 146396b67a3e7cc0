"""The server's own secret, the key of API key hashes and of the audit chain. It is never in the store.

A copy of the store alone is not enough to use its hashes or to forge its audit trail. The fingerprint of the secret is
in the store: a store is opened with the secret that sealed it or not at all, and a lost secret is never replaced. A
secret in a file is created once, for a store in which nothing is sealed yet.

Above it: `keys`, `penstock server doctor`. Below it: `sources`, the tables.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import secrets
import stat
from pathlib import Path

from penstock.app.server_secret.sources import (
    KEY_BYTES,
    MAKE_KEY_HINT,
    KeyFile,
    KeySource,
    NamedKey,
    decode_key,
    make_private_file,
)
from penstock.base.errors import Rejected, Unavailable
from penstock.operations.gate.audit_log import seal_with
from penstock.runtime.file_trust import find_file_risk
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.platform import AuditQuery
from penstock.runtime.tables.api_keys import list_keys
from penstock.runtime.tables.audit.records import list_audit, list_audit_tenants
from penstock.runtime.tables.resources import read_mark, set_mark

__all__ = ["FINGERPRINT_MARK", "fingerprint", "open_secret", "read_secret"]

FINGERPRINT_MARK = "pepper_fingerprint"
_PURPOSE = b"penstock store fingerprint"
# Long enough to be unique, short enough to compare by eye. It reveals nothing about the secret.
_FINGERPRINT_CHARACTERS = 16


def fingerprint(secret: bytes) -> str:
    """Identifies a secret without revealing it."""
    return hmac.digest(secret, _PURPOSE, "sha256").hex()[:_FINGERPRINT_CHARACTERS]


async def open_secret(source: KeySource, place: str, database: Database, *, looks_only: bool = False) -> bytes | None:
    """The secret of a store. Refuses a secret that did not seal the store, and a store whose secret is gone.

    A store in which nothing is sealed gets a new secret in a file. With `looks_only` none is created, and this returns
    None. `place` is what messages call the store.
    """
    known = await read_mark(database, FINGERPRINT_MARK)
    if isinstance(source, KeyFile) and not await asyncio.to_thread(source.path.exists):
        if known is not None or await _is_sealed(database):
            raise _missing(source, place, known)
        if looks_only:
            return None
    secret = await asyncio.to_thread(read_secret, source)
    if known is None:
        await _recognise(secret, source, place, database)
        if not looks_only:
            await set_mark(database, FINGERPRINT_MARK, fingerprint(secret))
    elif not hmac.compare_digest(str(known), fingerprint(secret)):
        raise _another(source, place, f"{fingerprint(secret)}, not {known}")
    return secret


async def _is_sealed(database: Database) -> bool:
    """True if a store without a fingerprint has something that was made with a secret."""
    return bool((await list_keys(database, tenant=None, limit=1)).rows) or bool(await list_audit_tenants(database))


async def _recognise(secret: bytes, source: KeySource, place: str, database: Database) -> None:
    """Check that a secret sealed a store that is older than fingerprints, by its newest records."""
    seal = seal_with(secret)
    for tenant in await list_audit_tenants(database):
        for record in (await list_audit(database, AuditQuery(tenant=tenant, limit=1))).records:
            if not hmac.compare_digest(seal(record.previous_hash, record.seq, record.entry), record.hash):
                raise _another(source, place, f"{fingerprint(secret)}; the audit trail was sealed with another")


def _missing(source: KeyFile, place: str, known: object) -> Unavailable:
    which = f" (fingerprint {known})" if known is not None else ""
    message = f"the secret{which} that {place} was sealed with is not at {source}"
    hint = "restore the file from where the database came from, or name its source in server.secret; no new one is made"
    return Unavailable("PEPPER_MISSING", message, hint)


def _another(source: KeySource, place: str, compared: str) -> Rejected:
    message = f"{source} is not the secret that {place} was sealed with (fingerprint {compared})"
    hint = "restore the secret of this database, or name its source in server.secret; with another one no key is valid"
    return Rejected("PEPPER_MISMATCH", message, hint)


def read_secret(source: KeySource) -> bytes:
    """Read the secret; one in a file is created if it is not there. May block."""
    return _read_named(source) if isinstance(source, NamedKey) else _read_file(source.path)


def _read_named(source: NamedKey) -> bytes:
    try:
        text = source.read()
    except Unavailable as error:
        message = f"the server's secret (server.secret) cannot be read: {error.message}"
        raise Unavailable("PEPPER_UNREADABLE", message, error.hint) from error
    secret = decode_key(text)
    if secret is None:
        message = f"the value from {source} (server.secret) is not a server's secret"
        raise Rejected("PEPPER_INVALID", message, MAKE_KEY_HINT)
    return secret


def _read_file(path: Path) -> bytes:
    """Read the secret, or create it. Refuses a file that others can read or that has other contents."""
    try:
        make_private_file(path, secrets.token_hex(KEY_BYTES) + "\n")
        mode = path.stat().st_mode
        text = path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        message = f"{path}: the server's secret cannot be read or created ({type(error).__name__})"
        raise Unavailable(
            "PEPPER_UNREADABLE", message, "make the folder writable, or name another source in server.secret"
        ) from error
    if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise Rejected("PEPPER_EXPOSED", f"{path} can be read by others", f"run: chmod 600 {path.name}")
    if (risk := find_file_risk(path, secret=True)) is not None:
        raise Rejected("PEPPER_EXPOSED", risk.problem, risk.advice)
    secret = decode_key(text)
    if secret is None:
        raise Rejected("PEPPER_INVALID", f"{path} does not hold a server's secret", "restore it from a backup")
    return secret
