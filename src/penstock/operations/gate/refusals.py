"""Refusals that anybody can cause without end: equal ones within a minute become one audit record with a count.

Refusing a call without a valid key, a request that never becomes a call, or a caller above its limits costs the server
almost nothing. Recording the refusal must not cost more. Equal refusals are counted. A tenant has a bounded number of
different ones in a minute; the rest share one record with a count for each code. An entry is written soon after its
first occurrence, and once more at the end of its minute if it occurred again. So a flood of any kind writes a few dozen
rows a minute.

Above it: `audit_log`, which writes the entries. Below it: nothing; no clock, no store.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec.structs import replace

from penstock.base import limits
from penstock.base.json import JsonObject
from penstock.runtime.ports.platform import AuditEntry

__all__ = ["VARIOUS", "GatheredRefusals", "RefusalKey"]

VARIOUS = "various"
"""Principal, surface and operation in the record that covers all refusals without a record of their own."""

RefusalKey = tuple[str, str, str, str | None, str | None, str | None]
"""What makes refusals equal: principal, surface, operation, subject, code and address."""


@dataclass(slots=True)
class _Kept:
    entry: AuditEntry
    pending: int
    """How often it occurred since it was last written."""
    is_written: bool = False


@dataclass(slots=True)
class _Window:
    """The refusals of one tenant within a minute."""

    began_at: int
    kept: dict[RefusalKey, _Kept] = field(default_factory=dict)
    first: AuditEntry | None = None
    """The first refusal without an entry of its own."""
    codes: dict[str, int] = field(default_factory=dict)
    remotes: dict[str, None] = field(default_factory=dict)

    def is_over(self, now_ms: int) -> bool:
        return not 0 <= now_ms - self.began_at < limits.AUDIT_REFUSALS_GATHER_MS

    def add_to_rest(self, entry: AuditEntry, count: int) -> None:
        self.first = self.first or entry
        code = entry.code or VARIOUS
        self.codes[code] = self.codes.get(code, 0) + count
        remote = entry.remote
        if remote is not None and len(self.remotes) < limits.AUDIT_REFUSAL_ADDRESSES_MAX:
            self.remotes[remote] = None

    def rest(self) -> AuditEntry | None:
        """Return one record for all refusals that have none of their own."""
        first = self.first
        if first is None:
            return None
        codes: JsonObject = {**self.codes}
        return AuditEntry(
            at=first.at,
            tenant=first.tenant,
            principal=VARIOUS,
            surface=VARIOUS,
            operation=VARIOUS,
            outcome="refused",
            count=sum(self.codes.values()),
            details={"codes": codes},
            remote=" ".join(self.remotes) or None,
        )


class GatheredRefusals:
    """The refusals that are not written yet, by tenant."""

    def __init__(self) -> None:
        self._windows: dict[str, _Window] = {}
        self._ended: list[AuditEntry] = []
        """Unwritten entries of minutes that are over."""

    def counted(self, tenant: str, key: RefusalKey, now_ms: int) -> bool:
        """Count a refusal that occurred before in this minute; return False if it has to be added."""
        window = self._windows.get(tenant)
        kept = None if window is None or window.is_over(now_ms) else window.kept.get(key)
        if kept is None:
            return False
        kept.pending += 1
        return True

    def add(self, key: RefusalKey, entry: AuditEntry) -> None:
        """Add a refusal that is new in this minute, or for which there is no room left."""
        window = self._windows.get(entry.tenant)
        if window is None or window.is_over(entry.at):
            if window is not None:
                self._ended += _take_due(window, is_over=True)
            window = self._windows[entry.tenant] = _Window(entry.at)
        if len(window.kept) < limits.AUDIT_REFUSALS_KEPT_MAX:
            window.kept[key] = _Kept(entry, 1)
        else:
            window.add_to_rest(entry, 1)

    def take(self, now_ms: int, *, final: bool = False) -> list[AuditEntry]:
        """Take the entries to write now: new ones, and counts of minutes that are over; with `final`, everything."""
        taken, self._ended = self._ended, []
        for tenant, window in list(self._windows.items()):
            is_over = final or window.is_over(now_ms)
            taken += _take_due(window, is_over=is_over)
            if is_over:
                del self._windows[tenant]
        return taken

    def give_back(self, entries: list[AuditEntry]) -> None:
        """Keep entries that could not be written, oldest first, as far as there is room."""
        self._ended = [*entries, *self._ended][: limits.AUDIT_REFUSALS_UNWRITTEN_MAX]


def _take_due(window: _Window, *, is_over: bool) -> list[AuditEntry]:
    due: list[AuditEntry] = []
    for kept in window.kept.values():
        if kept.pending and (is_over or not kept.is_written):
            due.append(replace(kept.entry, count=kept.pending))
            kept.pending, kept.is_written = 0, True
    rest = window.rest() if is_over else None
    return due if rest is None else [*due, rest]
