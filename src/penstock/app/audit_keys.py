"""The key that signs checkpoints of audit trails. It is stored beside the server's secret, not in the store.

The file is created when the key is first needed, and only its owner can read it. It is read at each use, so that a key
that another process replaced is used at once. The name of the key is derived from the server's secret: whoever replaces
the file signs under the same name with another key, which nobody trusts.

Above it: `gate`. Below it: the file system.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path

from penstock.app.pepper import make_private_file
from penstock.base.errors import Conflict, Rejected, Unavailable
from penstock.governance.audit.checkpoints import SEED_BYTES, SigningKey
from penstock.runtime.file_trust import find_file_risk

__all__ = ["AuditKeyFile"]


@dataclass(frozen=True, slots=True)
class AuditKeyFile:
    """The key in a file: its seed in hexadecimal."""

    path: Path
    name: str

    @classmethod
    def beside(cls, secret: Path, fingerprint: str) -> AuditKeyFile:
        """The key of the server with this secret."""
        path = secret.with_name(f"{secret.name.removesuffix('.secret')}.audit-key")
        return cls(path, f"penstock-{fingerprint}")

    def exists(self) -> bool:
        """Whether there is a key already."""
        return self.path.exists()

    async def signing_key(self) -> SigningKey:
        """Return the key; create it if there is none."""
        return await asyncio.to_thread(self._read)

    def new_seed(self) -> bytes:
        """Return the secret part of a new key."""
        return secrets.token_bytes(SEED_BYTES)

    async def replace(self, old: SigningKey, new: SigningKey) -> None:
        """Sign with another key from now on."""
        await asyncio.to_thread(self._replace, old, new)

    def _read(self) -> SigningKey:
        try:
            make_private_file(self.path, f"{self.new_seed().hex()}\n")
            mode = self.path.stat().st_mode
            seed = bytes.fromhex(self.path.read_text(encoding="ascii").strip())
        except (OSError, ValueError) as error:
            raise self._unavailable(type(error).__name__) from error
        if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise Rejected(
                "AUDIT_KEY_EXPOSED", f"{self.path} can be read by others", f"run: chmod 600 {self.path.name}"
            )
        if (risk := find_file_risk(self.path, secret=True)) is not None:
            raise Rejected("AUDIT_KEY_EXPOSED", risk.problem, risk.advice)
        if len(seed) != SEED_BYTES:
            raise self._unavailable("not a key")
        return SigningKey(self.name, seed)

    def _unavailable(self, why: str) -> Unavailable:
        message = f"{self.path}: the key that signs audit checkpoints cannot be read or made ({why})"
        return Unavailable("AUDIT_KEY_UNAVAILABLE", message, "restore the file from a backup, or make it readable")

    def _replace(self, old: SigningKey, new: SigningKey) -> None:
        if self._read() != old:
            message = "the key was changed by another process in the meantime"
            raise Conflict("PRECONDITION_FAILED", message, "look at it with audit.key")
        draft = self.path.with_name(f"{self.path.name}.{secrets.token_hex(4)}")
        try:
            make_private_file(draft, f"{new.seed.hex()}\n")
            draft.replace(self.path)
        except OSError as error:
            raise self._unavailable(type(error).__name__) from error
        finally:
            draft.unlink(missing_ok=True)
