"""The server's own secret, the key of API key hashes and of the audit chain. It is stored beside the store, not in it.

A copy of the store alone is not enough to use its hashes or to forge its audit trail. The secret is created once, for a
store in which nothing is sealed yet, and only its owner can read it. From then on its fingerprint is in the store: a
store is opened with the secret that sealed it or not at all, and a lost secret is never replaced.

Above it: `gate`, `penstock server doctor`. Below it: the platform store, the file system.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import secrets
import stat
from pathlib import Path

from penstock.base.errors import Rejected, Unavailable
from penstock.operations.gate.audit_log import seal_with
from penstock.runtime.file_trust import find_file_risk
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.platform import AuditQuery
from penstock.runtime.tables.api_keys import list_keys
from penstock.runtime.tables.audit.records import list_audit, list_audit_tenants
from penstock.runtime.tables.resources import read_mark, set_mark

__all__ = [
    "FINGERPRINT_MARK",
    "PEPPER_BYTES",
    "fingerprint",
    "make_private_file",
    "open_pepper",
    "pepper_path",
    "read_pepper",
]

PEPPER_BYTES = 32
FINGERPRINT_MARK = "pepper_fingerprint"
_PURPOSE = b"penstock store fingerprint"
# Long enough to be unique, short enough to compare by eye. It reveals nothing about the secret.
_FINGERPRINT_CHARACTERS = 16


def pepper_path(store_path: str | Path) -> Path:
    """The default path of a store's secret."""
    return Path(f"{store_path}.secret")


def fingerprint(pepper: bytes) -> str:
    """Identifies a secret without revealing it."""
    return hmac.digest(pepper, _PURPOSE, "sha256").hex()[:_FINGERPRINT_CHARACTERS]


async def open_pepper(path: Path, store_path: str, platform: Database, *, looks_only: bool = False) -> bytes | None:
    """The secret of a store. Refuses a secret that did not seal the store, and a store whose secret is gone.

    A store in which nothing is sealed gets a new secret. With `looks_only` none is created, and this returns None.
    """
    known = await read_mark(platform, FINGERPRINT_MARK)
    is_used = known is not None or await _is_sealed(platform)
    if not await asyncio.to_thread(path.exists):
        if is_used:
            raise _missing(path, store_path, known)
        if looks_only:
            return None
    pepper = await asyncio.to_thread(read_pepper, path)
    if known is None:
        await _recognise(pepper, path, store_path, platform)
        if not looks_only:
            await set_mark(platform, FINGERPRINT_MARK, fingerprint(pepper))
    elif not hmac.compare_digest(str(known), fingerprint(pepper)):
        raise _another(path, store_path, f"{fingerprint(pepper)}, not {known}")
    return pepper


async def _is_sealed(platform: Database) -> bool:
    """True if a store without a fingerprint has something that was made with a secret."""
    return bool((await list_keys(platform, tenant=None, limit=1)).rows) or bool(await list_audit_tenants(platform))


async def _recognise(pepper: bytes, path: Path, store_path: str, platform: Database) -> None:
    """Check that a secret sealed a store that is older than fingerprints, by its newest records."""
    seal = seal_with(pepper)
    for tenant in await list_audit_tenants(platform):
        for record in (await list_audit(platform, AuditQuery(tenant=tenant, limit=1))).records:
            if not hmac.compare_digest(seal(record.previous_hash, record.seq, record.entry), record.hash):
                raise _another(path, store_path, f"{fingerprint(pepper)}; the audit trail was sealed with another")


def _missing(path: Path, store_path: str, known: object) -> Unavailable:
    which = f" (fingerprint {known})" if known is not None else ""
    message = f"the secret{which} that {store_path} was sealed with is not at {path}"
    hint = "restore the file from where the database came from, or name it in auth.pepper_file; no new one is made"
    return Unavailable("PEPPER_MISSING", message, hint)


def _another(path: Path, store_path: str, compared: str) -> Rejected:
    message = f"{path} is not the secret that {store_path} was sealed with (fingerprint {compared})"
    hint = "restore the secret of this database, or name its file in auth.pepper_file; with another one no key is valid"
    return Rejected("PEPPER_MISMATCH", message, hint)


def read_pepper(path: Path) -> bytes:
    """Read the secret, or create it. Refuses a file that others can read or that has other contents."""
    try:
        make_private_file(path, secrets.token_hex(PEPPER_BYTES) + "\n")
        mode = path.stat().st_mode
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        message = f"{path}: the server's secret cannot be read or created ({type(error).__name__})"
        raise Unavailable(
            "PEPPER_UNREADABLE", message, "make the folder writable, or name a file you can read"
        ) from error
    if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise Rejected("PEPPER_EXPOSED", f"{path} can be read by others", f"run: chmod 600 {path.name}")
    if (risk := find_file_risk(path, secret=True)) is not None:
        raise Rejected("PEPPER_EXPOSED", risk.problem, risk.advice)
    try:
        pepper = bytes.fromhex(text)
    except ValueError:
        pepper = b""
    if len(pepper) != PEPPER_BYTES:
        raise Rejected("PEPPER_INVALID", f"{path} does not hold a server's secret", "restore it from a backup")
    return pepper


def make_private_file(path: Path, content: str) -> None:
    """Create a file that only its owner can read, unless it exists."""
    if path.exists():
        return
    # Written completely under another name first: a crash in between must not leave half a secret.
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        # The first process to link wins; all others then read its file.
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink(missing_ok=True)
