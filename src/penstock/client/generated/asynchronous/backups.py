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

        One moment of everything that all tenants have, copied while the server goes on, verified, and only then
        named. It is put into the folder of the settings, under a name made of the time. The server never deletes a
        backup that you asked for. The secret that stands beside the store is not in it.
        """
        return await self._caller.invoke("backup.create", {}, BackupView, idempotency_key=idempotency_key)

    async def list(self) -> BackupListing:
        """List the backups in the folder of the settings.

        A file is verified if this store knows that the server verified it, and its size and time are the same
        since. After a restore, backups that are newer than the restored one are not known any more.
        """
        return await self._caller.invoke("backup.list", {}, BackupListing)
