"""Operations on backup, awaited. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from penstock.client.caller import AsyncCaller
from penstock.client.generated.views.backup import BackupListing, BackupView

__all__ = ["AsyncBackups"]


class AsyncBackups:
    """Operations on backup."""

    def __init__(self, caller: AsyncCaller) -> None:
        self._caller = caller

    async def create(self, *, idempotency_key: str | None = None) -> BackupView:
        """Make a backup of the whole store.

        Copies one consistent moment of the data of all tenants while the server runs, verifies the copy, and then
        gives it its name. The backup is in the folder of the settings, named by the time. The server never deletes
        a backup that you asked for. The secret beside the store is not included.
        """
        return await self._caller.invoke("backup.create", {}, BackupView, idempotency_key=idempotency_key)

    async def list(self) -> BackupListing:
        """List the backups in the folder of the settings.

        A file counts as verified if the server verified it, and its size and time are unchanged since. After a
        restore, backups that are newer than the restored one are unknown.
        """
        return await self._caller.invoke("backup.list", {}, BackupListing)
