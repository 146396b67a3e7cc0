"""The server's own secret: the key of the hashes of API keys and of the audit chain, kept beside the store, not in it.

Whoever copies the store alone can neither use its hashes nor forge its audit trail. The secret is made once, for a
store that nothing was sealed in yet, and is readable for its owner only. Its fingerprint stands in the store from then
on: a store is opened with the secret that sealed it or not at all, and one that was lost is never replaced.

Above it: `gateway`, `penstock doctor`. Below it: the platform store, the file system.
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
from penstock.runtime.ports.platform import AuditQuery, PlatformStore

__all__ = ["FINGERPRINT_MARK", "PEPPER_BYTES", "fingerprint", "open_pepper", "pepper_path", "read_pepper"]

PEPPER_BYTES = 32
FINGERPRINT_MARK = "pepper_fingerprint"
_PURPOSE = b"penstock store fingerprint"
# Long enough that no two secrets share one, short enough to be compared by eye; it says nothing about the secret.
_FINGERPRINT_CHARACTERS = 16


def pepper_path(store_path: str | Path) -> Path:
    """Where the secret of a store is kept unless the operator says otherwise."""
    return Path(f"{store_path}.secret")


def fingerprint(pepper: bytes) -> str:
    """What tells one secret from another without telling the secret."""
    return hmac.digest(pepper, _PURPOSE, "sha256").hex()[:_FINGERPRINT_CHARACTERS]


async def open_pepper(
    path: Path, store_path: str, platform: PlatformStore, *, looks_only: bool = False
) -> bytes | None:
    """The secret of a store; refuses one that did not seal it, and a store whose secret is gone.

    A store that nothing was sealed in gets a new secret; `looks_only` makes nothing and gives None instead.
    """
    known = await platform.mark(FINGERPRINT_MARK)
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
            await platform.set_mark(FINGERPRINT_MARK, fingerprint(pepper))
    elif not hmac.compare_digest(str(known), fingerprint(pepper)):
        raise _another(path, store_path, f"{fingerprint(pepper)}, not {known}")
    return pepper


async def _is_sealed(platform: PlatformStore) -> bool:
    """Whether a store without a fingerprint has something that was made with a secret."""
    return bool((await platform.keys(tenant=None, limit=1)).rows) or bool(await platform.audit_tenants())


async def _recognise(pepper: bytes, path: Path, store_path: str, platform: PlatformStore) -> None:
    """See that a store from before there were fingerprints was sealed with a secret: its newest records tell."""
    seal = seal_with(pepper)
    for tenant in await platform.audit_tenants():
        for record in (await platform.audit(AuditQuery(tenant=tenant, limit=1))).records:
            if not hmac.compare_digest(seal(record.previous_hash, record.seq, record.entry), record.hash):
                raise _another(path, store_path, f"{fingerprint(pepper)}; the audit trail was sealed with another")


def _missing(path: Path, store_path: str, known: object) -> Unavailable:
    which = f" (fingerprint {known})" if known is not None else ""
    message = f"the secret{which} that {store_path} was sealed with is not at {path}"
    hint = "put the file back from where the database came from, or name it in auth.pepper_file; none is made instead"
    return Unavailable("PEPPER_MISSING", message, hint)


def _another(path: Path, store_path: str, compared: str) -> Rejected:
    message = f"{path} is not the secret that {store_path} was sealed with (fingerprint {compared})"
    hint = (
        "put the secret of this database there, or name its file in auth.pepper_file; with another one no key is valid"
    )
    return Rejected("PEPPER_MISMATCH", message, hint)


def read_pepper(path: Path) -> bytes:
    """The secret; made if there is none. Refuses a file that others can read or that holds something else."""
    try:
        _make(path)
        mode = path.stat().st_mode
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        message = f"{path}: the server's secret cannot be read or made ({type(error).__name__})"
        raise Unavailable(
            "PEPPER_UNREADABLE", message, "make the folder writable, or name a file you can read"
        ) from error
    if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise Rejected("PEPPER_EXPOSED", f"{path} can be read by others", f"run: chmod 600 {path.name}")
    try:
        pepper = bytes.fromhex(text)
    except ValueError:
        pepper = b""
    if len(pepper) != PEPPER_BYTES:
        raise Rejected("PEPPER_INVALID", f"{path} does not hold a server's secret", "restore it from a backup")
    return pepper


def _make(path: Path) -> None:
    if path.exists():
        return
    # Written whole under another name first: a crash in between must not leave half a secret.
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(secrets.token_hex(PEPPER_BYTES) + "\n")
            file.flush()
            os.fsync(file.fileno())
        # Whoever links first wins; everybody then reads the same one.
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink(missing_ok=True)
