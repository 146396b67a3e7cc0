"""The key that signs checkpoints of audit trails. It is never in the store.

A file with it is created when the key is first needed, and only its owner can read it. It is read at each use, so that
a key that another process replaced is used at once. The name of the key is derived from the server's secret. A replaced
file therefore signs under the same name with another key, which nobody trusts.

A key that is to replace the current one is kept in a file beside it until it does. If the process dies in between, the
next one finds it there, and uses it if the store says that it follows the current key.

A key in a source that the settings name is read once, and only its operator can replace it.

Above it: `keys`. Below it: `sources`, the file system.
"""

from __future__ import annotations

import asyncio
import glob
import os
import secrets
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from penstock.app.server_secret.sources import MAKE_KEY_HINT, NamedKey, decode_key, make_private_file
from penstock.base.errors import Conflict, Rejected, Unavailable
from penstock.governance.audit.checkpoints import SEED_BYTES, SigningKey
from penstock.runtime.file_trust import find_file_risk

__all__ = ["AuditKeyFile", "NamedAuditKey"]

_PREPARED = ".next-"
# Separates the name of a file from that of a draft of it, which `make_private_file` writes first.
_DRAFT = "."


@dataclass(frozen=True, slots=True)
class AuditKeyFile:
    """The key in a file: its seed in hexadecimal."""

    path: Path
    name: str

    def exists(self) -> bool:
        """Whether there is a key already."""
        return self.path.exists()

    async def signing_key(self) -> SigningKey:
        """Return the key, creating it if needed."""
        return await asyncio.to_thread(self._read)

    def new_seed(self) -> bytes:
        """Return the secret part of a new key."""
        return secrets.token_bytes(SEED_BYTES)

    async def prepare(self, new: SigningKey) -> None:
        """Keep a key that may replace the current one."""
        await asyncio.to_thread(self._prepare, new)

    async def prepared(self) -> list[SigningKey]:
        """Return the keys that were prepared and are not used yet."""
        return await asyncio.to_thread(self._read_prepared)

    async def discard(self, new: SigningKey) -> None:
        """Delete a key that was prepared and is not wanted any more."""
        await asyncio.to_thread(self._prepared_path(new).unlink, missing_ok=True)

    async def replace(self, old: SigningKey, new: SigningKey) -> None:
        """Sign with a prepared key from now on."""
        await asyncio.to_thread(self._replace, old, new)

    def _read(self) -> SigningKey:
        try:
            make_private_file(self.path, f"{self.new_seed().hex()}\n")
            return self._read_key(self.path)
        except OSError as error:
            raise self._unavailable(type(error).__name__) from error

    def _read_key(self, path: Path) -> SigningKey:
        mode = path.stat().st_mode
        try:
            seed = bytes.fromhex(path.read_text(encoding="ascii").strip())
        except ValueError as error:
            raise self._unavailable(type(error).__name__) from error
        if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise Rejected("AUDIT_KEY_EXPOSED", f"{path} can be read by others", f"run: chmod 600 {path.name}")
        if (risk := find_file_risk(path, secret=True)) is not None:
            raise Rejected("AUDIT_KEY_EXPOSED", risk.problem, risk.advice)
        if len(seed) != SEED_BYTES:
            raise self._unavailable("not a key")
        return SigningKey(self.name, seed)

    def _prepared_path(self, new: SigningKey) -> Path:
        return self.path.with_name(f"{self.path.name}{_PREPARED}{new.verifier.key_id.hex()}")

    def _prepare(self, new: SigningKey) -> None:
        try:
            make_private_file(self._prepared_path(new), f"{new.seed.hex()}\n")
        except OSError as error:
            raise self._unavailable(type(error).__name__) from error

    def _read_prepared(self) -> list[SigningKey]:
        found = []
        for path in self.path.parent.glob(f"{glob.escape(self.path.name)}{_PREPARED}*"):
            if _DRAFT not in path.name.removeprefix(f"{self.path.name}{_PREPARED}"):
                with suppress(FileNotFoundError):  # another process has used it
                    found.append(self._read_key(path))
        return found

    def _unavailable(self, why: str) -> Unavailable:
        message = f"{self.path}: the key that signs audit checkpoints cannot be read or created ({why})"
        return Unavailable("AUDIT_KEY_UNAVAILABLE", message, "restore the file from a backup, or make it readable")

    def _replace(self, old: SigningKey, new: SigningKey) -> None:
        current = self._read()
        if current not in (old, new):
            message = "another process changed the key"
            raise Conflict("PRECONDITION_FAILED", message, "read the current key with audit.key")
        self._prepare(new)  # unless it is there
        try:
            self._prepared_path(new).replace(self.path)
        except FileNotFoundError:
            pass  # another process has used it
        except OSError as error:
            raise self._unavailable(type(error).__name__) from error


class NamedAuditKey:
    """The key in a source that the settings name. The server never makes or replaces it."""

    def __init__(self, source: NamedKey, name: str) -> None:
        self._source = source
        self._name = name
        self._key: SigningKey | None = None

    def exists(self) -> bool:
        """Return True: the settings name a key, and `signing_key` says if it cannot be read."""
        return True

    async def signing_key(self) -> SigningKey:
        """Return the key, as it was when it was first read."""
        if self._key is None:
            self._key = await asyncio.to_thread(self._read)
        return self._key

    def new_seed(self) -> bytes:
        """Return the secret part of a new key."""
        return secrets.token_bytes(SEED_BYTES)

    async def prepare(self, new: SigningKey) -> None:
        """Refuse: a process cannot write to the source."""
        raise self._fixed()

    async def prepared(self) -> list[SigningKey]:
        """Return nothing: no key can be prepared."""
        return []

    async def discard(self, new: SigningKey) -> None:
        """Do nothing: no key can be prepared."""

    async def replace(self, old: SigningKey, new: SigningKey) -> None:
        """Refuse: a process cannot write to the source."""
        raise self._fixed()

    def _read(self) -> SigningKey:
        try:
            seed = decode_key(self._source.read())
        except Unavailable as error:
            message = f"the key that signs audit checkpoints (server.audit_key) cannot be read: {error.message}"
            raise Unavailable("AUDIT_KEY_UNAVAILABLE", message, error.hint) from error
        if seed is None:
            message = f"the value from {self._source} (server.audit_key) is not a key that signs audit checkpoints"
            raise Unavailable("AUDIT_KEY_UNAVAILABLE", message, MAKE_KEY_HINT)
        return SigningKey(self._name, seed)

    def _fixed(self) -> Unavailable:
        message = f"the key that signs audit checkpoints comes from {self._source}, which this server cannot change"
        hint = "put the key into the file beside the database, rotate it there, and store the new key in the source"
        return Unavailable("AUDIT_KEY_UNAVAILABLE", message, hint)
