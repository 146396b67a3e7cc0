"""A tenant's trail from the store, oldest first and without gaps: records, and what stands for removed ones.

Above it: the operations of this package. Below it: the platform port, `governance.audit`.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import TypeAlias

from penstock.base import limits
from penstock.governance.audit.chain import RemovedRecords, verified_leaf
from penstock.governance.audit.leaves import entry_leaf
from penstock.governance.audit.trails import RemovedPart, removed_leaves
from penstock.governance.audit.tree import HASH_BYTES
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.platform import AuditQuery, AuditRecord
from penstock.runtime.tables.audit.records import list_audit
from penstock.runtime.tables.audit.removal import list_removed_audit

__all__ = ["TrailGap", "TrailPart", "checkpoint_id", "leaf_pages", "leaves_of", "part_pages", "verified_leaves"]

TrailPart: TypeAlias = AuditRecord | RemovedPart
# Larger than any size, so that the difference sorts the newest first.
_SIZES_END = 10**18


def checkpoint_id(size: int) -> str:
    """Return the id under which the checkpoint of a size, and what belongs to it, is stored."""
    return f"{_SIZES_END - size:019}"


class TrailGap(Exception):
    """Records are missing in the store, and nothing stands for them."""

    def __init__(self, seq: int) -> None:
        super().__init__(f"the record {seq} is missing")
        self.seq = seq


async def part_pages(
    platform: Database, tenant: str, *, after: int = 0, upto: int | None = None
) -> AsyncIterator[list[TrailPart]]:
    """Yield the parts of a trail after a number, in pages; raise `TrailGap` where something is missing.

    Records that an earlier release removed at the beginning left nothing behind: a part without leaves stands for them.
    """
    position = after
    before = None if upto is None else upto + 1
    while True:
        page = await list_audit(
            platform,
            AuditQuery(
                tenant=tenant, after_seq=position, before_seq=before, oldest_first=True, limit=limits.HISTORY_PAGE_MAX
            ),
        )
        parts: list[TrailPart] = []
        for record in page.records:
            if record.seq != position + 1:
                async for part in _removed_before(platform, tenant, position, record.seq):
                    parts.append(part)
                    position = part.last_seq
            parts.append(record)
            position = record.seq
        if not page.has_more and upto is not None and position < upto:
            async for part in _removed_before(platform, tenant, position, upto + 1):
                parts.append(part)
        if parts:
            yield parts
        if not page.has_more:
            return


async def _removed_before(platform: Database, tenant: str, position: int, before: int) -> AsyncIterator[RemovedPart]:
    """Yield what stands for the records between two numbers."""
    while position + 1 < before:
        found = await list_removed_audit(platform, tenant, after_seq=position, limit=1)
        stretch = found[0] if found else None
        if stretch is not None and stretch.first_seq <= position + 1:
            part = _clipped(stretch, position + 1, before - 1)
        elif position == 0:
            last = before - 1 if stretch is None else min(before, stretch.first_seq) - 1
            part = RemovedPart(first_seq=1, last_seq=last)
        else:
            raise TrailGap(position + 1)
        yield part
        position = part.last_seq


def _clipped(stretch: RemovedRecords, first: int, last: int) -> RemovedPart:
    last = min(last, stretch.last_seq)
    start, end = ((seq - stretch.first_seq) * HASH_BYTES for seq in (first, last + 1))
    return RemovedPart(
        first_seq=first,
        last_seq=last,
        previous_hash=stretch.previous_hash if first == stretch.first_seq else None,
        last_hash=stretch.last_hash if last == stretch.last_seq else None,
        leaves=base64.b64encode(stretch.leaves[start:end]).decode(),
    )


def leaves_of(parts: list[TrailPart]) -> list[bytes]:
    """Return the leaves of parts."""
    found: list[bytes] = []
    for part in parts:
        if isinstance(part, RemovedPart):
            found += removed_leaves(part)
        else:
            found.append(entry_leaf(part.entry, part.seq))
    return found


def verified_leaves(pepper: bytes, parts: list[TrailPart]) -> list[bytes]:
    """Return the leaves of parts; raise `TrailGap` at a record that is not what was sealed."""
    found: list[bytes] = []
    for part in parts:
        if isinstance(part, RemovedPart):
            found += removed_leaves(part)
            continue
        leaf = verified_leaf(pepper, part)
        if leaf is None:
            raise TrailGap(part.seq)
        found.append(leaf)
    return found


async def leaf_pages(
    platform: Database, tenant: str, *, after: int = 0, upto: int | None = None
) -> AsyncIterator[list[bytes]]:
    """Yield the leaves of a trail in pages. They are hashed in a thread, so that other calls go on."""
    async for parts in part_pages(platform, tenant, after=after, upto=upto):
        yield await asyncio.to_thread(leaves_of, parts)
