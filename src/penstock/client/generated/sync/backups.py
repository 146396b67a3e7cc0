"""Operations on backup, typed. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from penstock.client.caller import Caller
from penstock.client.generated.views.backup import BackupListing, BackupView

__all__ = ["Backups"]


class Backups:
    """Operations on backup."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def create(self, *, idempotency_key: str | None = None) -> BackupView:
        """Make a backup of the whole store.

        Copies one consistent moment of the data of all tenants while the server runs, verifies the copy, and then
        gives it its name. The backup is in the folder of the settings, named by the time. The server never deletes
        a backup that you asked for. The secret beside the store is not included.
        """
        return self._caller.invoke("backup.create", {}, BackupView, idempotency_key=idempotency_key)

    def list(self) -> BackupListing:
        """List the backups in the folder of the settings.

        A file counts as verified if the server verified it, and its size and time are unchanged since. After a
        restore, backups that are newer than the restored one are unknown.
        """
        return self._caller.invoke("backup.list", {}, BackupListing)
