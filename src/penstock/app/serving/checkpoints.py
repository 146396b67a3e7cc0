"""Signs audit trails regularly, and writes the checkpoints where the operator wants them, while a server runs.

A checkpoint is stored first and then written to every target. What could not be written is written later: how far each
target got is noted in the store. Several servers on one store may write a checkpoint twice, which harms nothing.

Above it: `server`. Below it: `checkpoint_targets`, `stamping`, the operation `audit.checkpoint`.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from penstock.app.serving.checkpoint_targets import (
    CheckpointTarget,
    FileTarget,
    GitFolderTarget,
    NotWritten,
    WebhookTarget,
)
from penstock.app.serving.stamping import StampChoices, Stamper, StampStatus
from penstock.base import limits
from penstock.base.errors import PenstockError
from penstock.operations.audit.checkpoints import StoredCheckpoint, checkpoint_rows, newest_checkpoint
from penstock.operations.gate.internal_callers import internal_call, system_principal
from penstock.operations.gate.pipeline import Gate
from penstock.runtime.tables.audit.heads import find_audit_head
from penstock.runtime.tables.audit.records import list_audit_tenants
from penstock.runtime.tables.resources import read_mark, set_mark

__all__ = ["CheckpointChoices", "keep_checkpoints"]

_LOGGER = logging.getLogger("penstock.audit")
_PAGE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointChoices:
    """When trails are signed, and where checkpoints go."""

    every_entries: int = limits.AUDIT_CHECKPOINT_ENTRIES
    every_ms: int = limits.AUDIT_CHECKPOINT_MS
    files: tuple[Path, ...] = ()
    webhooks: tuple[str, ...] = ()
    git_folders: tuple[Path, ...] = ()
    look_seconds: float = limits.AUDIT_CHECKPOINT_LOOK_SECONDS
    timestamp: StampChoices | None = None
    """The time-stamping authority that stamps checkpoints, if there is one."""


@asynccontextmanager
async def keep_checkpoints(
    gate: Gate, choices: CheckpointChoices, status: StampStatus | None = None
) -> AsyncIterator[None]:
    """Sign trails and write checkpoints until the block ends; `status` learns whether stamping works."""
    if not gate.services.audited:
        yield
        return
    targets: list[CheckpointTarget] = [
        *map(FileTarget, choices.files),
        *map(GitFolderTarget, choices.git_folders),
        *(WebhookTarget(url, allow_private=gate.services.webhooks.allow_private_addresses) for url in choices.webhooks),
    ]
    stamper = None if choices.timestamp is None else Stamper(gate, choices.timestamp, status or StampStatus())
    keeper = CheckpointKeeper(gate, choices, targets, stamper)
    task = asyncio.create_task(keeper.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        for target in (*targets, *(() if stamper is None else (stamper,))):
            await target.close()


@dataclass(slots=True)
class CheckpointKeeper:
    """Signs every trail in turn."""

    gate: Gate
    choices: CheckpointChoices
    targets: Sequence[CheckpointTarget] = ()
    stamper: Stamper | None = None
    _signed: dict[str, tuple[int, int]] = field(default_factory=dict)
    """How far each trail is signed, and when that was; its own record comes after it."""
    _retry_at: dict[str, int] = field(default_factory=dict)
    """When to try again to sign trails that could not be signed, so that they do not fill with refusals."""
    _reported: set[str] = field(default_factory=set)
    """Targets whose failure was reported, so that each is reported once."""

    async def run(self) -> None:
        """Look again and again."""
        while True:
            await asyncio.sleep(self.choices.look_seconds)
            try:
                await self.look()
            except PenstockError:
                _LOGGER.exception("audit trails could not be signed; trying again")

    async def look(self) -> None:
        """Sign the trails that are due, and write what the targets do not have yet."""
        platform = self.gate.services.platform
        tenants = await list_audit_tenants(platform)
        for tenant in tenants:
            if await self._is_due(tenant):
                await self._sign(tenant)
        for target in self.targets:
            await self._write(target, tenants)
        if self.stamper is not None:
            await self.stamper.look(tenants)

    async def _is_due(self, tenant: str) -> bool:
        platform, now = self.gate.services.platform, self.gate.services.clock.now_ms()
        head = await find_audit_head(platform, tenant)
        if head is None or now < self._retry_at.get(tenant, 0):
            return False
        known = self._signed.get(tenant)
        if known is None:
            newest = await newest_checkpoint(platform, tenant)
            known = self._signed[tenant] = (0, now) if newest is None else (newest.size, newest.at)
        size, at = known
        # The record of the checkpoint itself is always new, and so is that of its stamp.
        stamped = self.stamper is not None and await self.stamper.is_stamped(tenant, size)
        fresh = head.last_seq - size - (1 if size else 0) - (1 if stamped else 0)
        return fresh >= self.choices.every_entries or (fresh > 0 and now - at >= self.choices.every_ms)

    async def _sign(self, tenant: str) -> None:
        principal = system_principal("checkpoints", "audit:sign", tenant=tenant)
        # Another process may have signed it meanwhile; then this one learns so.
        self._signed.pop(tenant, None)
        try:
            await internal_call(self.gate, principal, "audit.checkpoint", {})
        except PenstockError as error:
            if error.code == "PRECONDITION_FAILED":
                return
            self._retry_at[tenant] = self.gate.services.clock.now_ms() + self.choices.every_ms
            _LOGGER.error("the audit trail of %s is not signed: %s", tenant, error)  # noqa: TRY400  # known errors

    async def _write(self, target: CheckpointTarget, tenants: Sequence[str]) -> None:
        platform = self.gate.services.platform
        mark = f"audit_checkpoints:{hashlib.sha256(target.name.encode()).hexdigest()[:16]}"
        noted = await read_mark(platform, mark)
        progress = dict(noted) if isinstance(noted, dict) else {}
        for tenant in tenants:
            done = progress.get(tenant, 0)
            for checkpoint in await self._after(tenant, done if isinstance(done, int) else 0):
                outcome = await target.write(tenant, checkpoint.size, checkpoint.note)
                if isinstance(outcome, NotWritten):
                    if target.name not in self._reported:
                        self._reported.add(target.name)
                        _LOGGER.error("checkpoints are not written to %s: %s", target.name, outcome.reason)
                    return
                self._reported.discard(target.name)
                progress[tenant] = checkpoint.size
                await set_mark(platform, mark, progress)

    async def _after(self, tenant: str, size: int) -> list[StoredCheckpoint]:
        """The checkpoints of a tenant above a size, oldest first."""
        found: list[StoredCheckpoint] = []
        cursor = None
        while True:
            page, cursor = await checkpoint_rows(self.gate.services.platform, tenant, limit=_PAGE, cursor=cursor)
            found += [checkpoint for checkpoint in page if checkpoint.size > size]
            if cursor is None or page[-1].size <= size:
                return found[::-1]
