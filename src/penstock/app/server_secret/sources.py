"""Where the server's secret and its audit key come from: a file, or a source that the settings name.

Both are 32 bytes, written as 64 hexadecimal digits. A file is made when it is first needed, and only its owner can read
it. In a named source nothing is ever made: a server that made a key of its own would lock out the others.

Above it: `secret`, `audit_keys`. Below it: the file system, `executors.secret_sources`.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from penstock.app.settings.secrets import FileReference, SecretReference, describe_reference
from penstock.base.lazy_import import lazy_import

if TYPE_CHECKING:
    from penstock.app.executors import secret_sources
else:
    secret_sources = lazy_import("penstock.app.executors.secret_sources")

__all__ = ["KEY_BYTES", "MAKE_KEY_HINT", "KeyFile", "KeySource", "NamedKey", "decode_key", "make_private_file"]

KEY_BYTES: Final = 32
MAKE_KEY_HINT: Final = "it must be 64 hexadecimal digits; `openssl rand -hex 32` makes new ones"


@dataclass(frozen=True, slots=True)
class KeyFile:
    """A file that is made when it is first needed."""

    path: Path

    @property
    def file(self) -> Path:
        """The file whose owner and permissions matter."""
        return self.path

    def __str__(self) -> str:
        return str(self.path)


@dataclass(frozen=True, slots=True)
class NamedKey:
    """A source that the settings name, in which nothing is made."""

    reference: SecretReference

    @property
    def file(self) -> Path | None:
        """The file whose owner and permissions matter, if it is one."""
        return Path(self.reference.path) if isinstance(self.reference, FileReference) else None

    def read(self) -> str:
        """Return the text that the source has now; raise `Unavailable` without one. May block while a program runs."""
        return secret_sources.resolve_secret(self.reference)

    def __str__(self) -> str:
        return describe_reference(self.reference)


KeySource: TypeAlias = KeyFile | NamedKey


def decode_key(text: str) -> bytes | None:
    """Return the bytes that a text has in hexadecimal; None if it is not a key."""
    try:
        key = bytes.fromhex(text.strip())
    except ValueError:
        return None
    return key if len(key) == KEY_BYTES else None


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
