"""Has checkpoints stamped by a time-stamping authority, while a server runs.

Only the newest checkpoint of a trail is stamped: it covers everything before it. An authority that does not answer
never holds up checkpoints: it is asked again later, the log says so once, and the health of the server shows it.

Above it: `checkpoints`, `server`. Below it: `app.timestamps`, the client of the authority, `audit.keep_stamp`.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from penstock import __version__
from penstock.app.timestamps import (
    Authorities,
    StampInvalid,
    read_authorities,
    read_stamp,
    require_timestamps,
    stamp_request,
)
from penstock.base import limits
from penstock.base.lazy_import import lazy_import
from penstock.operations.audit.checkpoints import StoredCheckpoint, newest_checkpoint
from penstock.operations.audit.stamps import KEEP_STAMP, stamp_of
from penstock.operations.catalogue.fields import instant
from penstock.operations.gate.internal_callers import internal_call, system_principal
from penstock.operations.gate.pipeline import Gate
from penstock.operations.system.health import STAMPS_CHECK
from penstock.runtime.webhooks.dispatcher import NotSent

if TYPE_CHECKING:
    from penstock.runtime.executors.http import timestamp_client
else:
    timestamp_client = lazy_import("penstock.runtime.executors.http.timestamp_client")

__all__ = ["StampChoices", "StampStatus", "Stamper", "with_stamp_check"]

_LOGGER = logging.getLogger("penstock.audit")
Checks = Callable[[], Awaitable[dict[str, str]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StampChoices:
    """Which authority stamps checkpoints. With certificates, a stamp that they do not verify is not kept."""

    url: str
    certificates: Path | None = None
    retry_ms: int = limits.AUDIT_STAMP_RETRY_MS


@dataclass(slots=True)
class StampStatus:
    """The status of the authority, for the health of the server."""

    reason: str | None = None
    since: int = 0

    def failed(self, reason: str, now: int) -> bool:
        """Note a failure; return whether it is the first in a row."""
        first = self.reason is None
        self.reason, self.since = reason, now if first else self.since
        return first

    def worked(self) -> None:
        """Note that a stamp was made."""
        self.reason = None


def with_stamp_check(checks: Checks, status: StampStatus) -> Checks:
    """Add the check of stamps to the health checks."""

    async def look() -> dict[str, str]:
        told = "ok" if status.reason is None else f"not since {instant(status.since)}: {status.reason}"
        return {**await checks(), STAMPS_CHECK: told}

    return look


@dataclass(slots=True)
class Stamper:
    """Asks one authority."""

    gate: Gate
    choices: StampChoices
    status: StampStatus = field(default_factory=StampStatus)
    _client: timestamp_client.TimestampClient | None = None
    _authorities: Authorities | None = None
    _stamped: dict[str, int] = field(default_factory=dict)
    """The size of the last checkpoint of each tenant that is known to be stamped."""
    _retry_at: int = 0

    def __post_init__(self) -> None:
        require_timestamps()
        if self.choices.certificates is not None:
            self._authorities = read_authorities(self.choices.certificates)

    async def is_stamped(self, tenant: str, size: int) -> bool:
        """Whether the checkpoint of a size is stamped, by this process or another."""
        if self._stamped.get(tenant) == size:
            return True
        if await stamp_of(self.gate.services.platform, tenant, size) is None:
            return False
        self._stamped[tenant] = size
        return True

    async def look(self, tenants: Sequence[str]) -> None:
        """Have the newest checkpoint of each tenant stamped, if it is not; the first failure ends it for now."""
        platform, clock = self.gate.services.platform, self.gate.services.clock
        if clock.now_ms() < self._retry_at:
            return
        for tenant in tenants:
            newest = await newest_checkpoint(platform, tenant)
            if newest is None or await self.is_stamped(tenant, newest.size):
                continue
            reason = await self._stamp(tenant, newest)
            if reason is not None:
                self._failed(reason)
                return
            self._stamped[tenant] = newest.size
            self.status.worked()

    async def _stamp(self, tenant: str, checkpoint: StoredCheckpoint) -> str | None:
        """Have one checkpoint stamped; return the error, if any."""
        if self._client is None:
            self._client = await asyncio.to_thread(self._made)
        request = stamp_request(checkpoint.note)
        answer = await self._client.ask(request.body, timeout_seconds=limits.AUDIT_CHECKPOINT_SEND_SECONDS)
        if isinstance(answer, NotSent):
            return answer.reason
        stamp = await asyncio.to_thread(read_stamp, answer, checkpoint.note, request, self._authorities)
        if isinstance(stamp, StampInvalid):
            return stamp.reason
        principal = system_principal("checkpoints", "audit:sign", tenant=tenant)
        token = base64.b64encode(stamp.token).decode()
        await internal_call(self.gate, principal, KEEP_STAMP, {"size": checkpoint.size, "at": stamp.at, "token": token})
        return None

    def _failed(self, reason: str) -> None:
        now = self.gate.services.clock.now_ms()
        self._retry_at = now + self.choices.retry_ms
        if self.status.failed(reason, now):
            _LOGGER.error("checkpoints are not stamped by %s: %s; trying again later", self.choices.url, reason)

    def _made(self) -> timestamp_client.TimestampClient:
        allow_private = self.gate.services.webhooks.allow_private_addresses
        return timestamp_client.TimestampClient(
            self.choices.url, allow_private=allow_private, user_agent=f"penstock/{__version__}"
        )

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()
