"""The server's secret and its audit key, for one database: where each comes from.

Above it: `app.drivers`, `gate`. Below it: `secret`, `audit_keys`, `sources`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.app.server_secret.sources import KeyFile, KeySource, NamedKey
from penstock.base.lazy_import import lazy_import

if TYPE_CHECKING:
    from penstock.app.server_secret import audit_keys
    from penstock.app.server_secret import secret as secrets
    from penstock.app.settings.model import Settings
    from penstock.operations.gate.context import AuditKeys
    from penstock.runtime.ports.database import Database
else:
    audit_keys = lazy_import("penstock.app.server_secret.audit_keys")
    secrets = lazy_import("penstock.app.server_secret.secret")

__all__ = ["ServerKeys"]

_SECRET, _AUDIT_KEY = ".secret", ".audit-key"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerKeys:
    """The sources of the secret and of the audit key of one database."""

    place: str
    """What messages call the database."""
    secret: KeySource
    audit_key: KeySource

    @classmethod
    def beside(cls, file: Path, secret_file: Path | None = None) -> ServerKeys:
        """The files beside a database, or the secret in another file and the audit key beside that one."""
        secret = secret_file or Path(f"{file}{_SECRET}")
        audit_key = secret.with_name(f"{secret.name.removesuffix(_SECRET)}{_AUDIT_KEY}")
        return cls(place=str(file), secret=KeyFile(secret), audit_key=KeyFile(audit_key))

    @classmethod
    def chosen(cls, settings: Settings, file: Path) -> ServerKeys:
        """What the settings name; for all that they do not name, the files beside a database."""
        named, pepper_file = settings.server, settings.auth.pepper_file
        beside = cls.beside(file, None if pepper_file is None else Path(pepper_file))
        return cls(
            place=str(file),
            secret=beside.secret if named.secret is None else NamedKey(named.secret),
            audit_key=beside.audit_key if named.audit_key is None else NamedKey(named.audit_key),
        )

    async def open_secret(self, database: Database, *, looks_only: bool = False) -> bytes | None:
        """Return the secret that sealed a database; None if nothing is sealed in it and `looks_only` forbids to make
        one.
        """
        found: bytes | None = await secrets.open_secret(self.secret, self.place, database, looks_only=looks_only)
        return found

    async def open_audit_keys(self, secret: bytes, *, looks_only: bool = False) -> AuditKeys:
        """Return the key that signs checkpoints, which is named after the secret.

        A named source is read at once, unless `looks_only` is set: then it is read when something needs the key.
        """
        name = f"penstock-{secrets.fingerprint(secret)}"
        if isinstance(self.audit_key, KeyFile):
            return audit_keys.AuditKeyFile(self.audit_key.path, name)
        key = audit_keys.NamedAuditKey(self.audit_key, name)
        if not looks_only:
            await key.signing_key()
        return key
