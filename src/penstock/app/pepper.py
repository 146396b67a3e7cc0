"""The server's own secret: the key of the hashes of API keys and of the audit chain, kept beside the store, not in it.

Whoever copies the store alone can neither use its hashes nor forge its audit trail. It is made at the first start, and
readable for its owner only.

Above it: `gateway`. Below it: the file system.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from penstock.base.errors import Rejected, Unavailable

__all__ = ["PEPPER_BYTES", "pepper_path", "read_pepper"]

PEPPER_BYTES = 32


def pepper_path(store_path: str | Path) -> Path:
    """Where the secret of a store is kept unless the operator says otherwise."""
    return Path(f"{store_path}.secret")


def read_pepper(path: Path) -> bytes:
    """The secret; made if there is none. Refuses a file that others can read or that holds something else."""
    try:
        _make(path)
        mode = path.stat().st_mode
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        told = f"{path}: the server's secret cannot be read or made ({type(error).__name__})"
        raise Unavailable("PEPPER_UNREADABLE", told, "make the folder writable, or name a file you can read") from error
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
