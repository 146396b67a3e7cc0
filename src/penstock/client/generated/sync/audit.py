"""Operations on audit, typed. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from penstock.client.caller import Caller
from penstock.client.generated.views.audit import AuditPageView, AuditRecordView, Export, Verified

__all__ = ["Audit"]


class Audit:
    """Operations on audit."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def list(
        self,
        *,
        operation: str | None = None,
        principal: str | None = None,
        subject: str | None = None,
        outcome: Literal["allowed", "failed", "refused"] | None = None,
        since: str | None = None,
        until: str | None = None,
        strangers: bool | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> AuditPageView:
        """List audit records.

        Who did what, when, from where, and what came of it; newest first, of your tenant. With `strangers` the
        calls that nobody could be found for: those with no valid key, and requests to addresses and webhooks that
        are not there.
        """
        return self._caller.invoke(
            "audit.list",
            {
                "operation": operation,
                "principal": principal,
                "subject": subject,
                "outcome": outcome,
                "since": since,
                "until": until,
                "strangers": strangers,
                "limit": limit,
                "cursor": cursor,
            },
            AuditPageView,
        )

    def list_all(
        self,
        *,
        operation: str | None = None,
        principal: str | None = None,
        subject: str | None = None,
        outcome: Literal["allowed", "failed", "refused"] | None = None,
        since: str | None = None,
        until: str | None = None,
        strangers: bool | None = None,
        limit: int | None = None,
    ) -> Iterator[AuditRecordView]:
        """List audit records: all of them; `limit` is the size of a page."""
        for page in self._caller.pages(
            "audit.list",
            {
                "operation": operation,
                "principal": principal,
                "subject": subject,
                "outcome": outcome,
                "since": since,
                "until": until,
                "strangers": strangers,
                "limit": limit,
            },
            AuditPageView,
        ):
            yield from page.items

    def verify(self, *, seq: int | None = None, hash: str | None = None) -> Verified:
        """Verify the audit trail.

        Recomputes the whole chain of your tenant, and says where it was altered, cut or reordered, if it was. Its
        two ends are sealed, so that records which are missing there are found too. With `seq` and `hash` of an
        earlier answer it also says whether the trail was put back to an older state as a whole.
        """
        return self._caller.invoke("audit.verify", {"seq": seq, "hash": hash}, Verified)

    def export(self, *, after_seq: int | None = None, limit: int | None = None) -> Export:
        """Export audit records.

        Oldest first and unfiltered, so that the chain can be verified elsewhere; go on after the last number while
        there is more.
        """
        return self._caller.invoke("audit.export", {"after_seq": after_seq, "limit": limit}, Export)
