"""Operations on draft, typed. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from penstock.client.caller import Caller
from penstock.client.generated.views.draft import DraftPage, DraftReview, DraftView

__all__ = ["Drafts"]


class Drafts:
    """Operations on draft."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def list(
        self,
        *,
        operation: str | None = None,
        status: Literal["ended", "open"] | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> DraftPage:
        """List calls that wait for approval, newest first.

        Each says who wants what, why it waits, until when, and what came of it.
        """
        return self._caller.invoke(
            "draft.list", {"operation": operation, "status": status, "limit": limit, "cursor": cursor}, DraftPage
        )

    def list_all(
        self, *, operation: str | None = None, status: Literal["ended", "open"] | None = None, limit: int | None = None
    ) -> Iterator[DraftView]:
        """List calls that wait for approval, newest first: all of them; `limit` is the size of a page."""
        for page in self._caller.pages(
            "draft.list", {"operation": operation, "status": status, "limit": limit}, DraftPage
        ):
            yield from page.items

    def get(self, draft_id: str) -> DraftView:
        """Get a call that waits, or waited, for approval.

        Shows the whole call, its digest, who may approve it, and what came of it. An answer with a secret is shown
        only to whoever made the call, for a day.
        """
        return self._caller.invoke("draft.get", {"draft_id": draft_id}, DraftView)

    def approve(
        self,
        draft_id: str,
        *,
        digest: str | None = None,
        note: str | None = None,
        wait_seconds: float | None = None,
        idempotency_key: str | None = None,
    ) -> DraftView:
        """Approve a call that waits.

        Once enough people have approved it, the call is made, once, as the principal that wanted it; the answer
        says what came of it, if that is known in time. Models and agents cannot approve.
        """
        return self._caller.invoke(
            "draft.approve",
            {"draft_id": draft_id, "digest": digest, "note": note, "wait_seconds": wait_seconds},
            DraftView,
            idempotency_key=idempotency_key,
        )

    def reject(
        self,
        draft_id: str,
        *,
        digest: str | None = None,
        note: str | None = None,
        wait_seconds: float | None = None,
        idempotency_key: str | None = None,
    ) -> DraftView:
        """Reject a call that waits.

        One approver who rejects it is enough: it is not made.
        """
        return self._caller.invoke(
            "draft.reject",
            {"draft_id": draft_id, "digest": digest, "note": note, "wait_seconds": wait_seconds},
            DraftView,
            idempotency_key=idempotency_key,
        )

    def commit(
        self,
        draft_id: str,
        *,
        digest: str,
        note: str | None = None,
        wait_seconds: float | None = None,
        idempotency_key: str | None = None,
    ) -> DraftView:
        """Make a call that you have looked at.

        For a draft that its caller asked for, and that nothing else makes wait: whoever asked for it makes the call
        with the digest of what they have seen. Of any other draft it is the approval of somebody who may give it.
        """
        return self._caller.invoke(
            "draft.commit",
            {"draft_id": draft_id, "digest": digest, "note": note, "wait_seconds": wait_seconds},
            DraftView,
            idempotency_key=idempotency_key,
        )

    def cancel(self, draft_id: str, *, reason: str | None = None, idempotency_key: str | None = None) -> DraftView:
        """Withdraw a call that waits for approval.

        Whoever made the call can, and whoever may approve it.
        """
        return self._caller.invoke(
            "draft.cancel", {"draft_id": draft_id, "reason": reason}, DraftView, idempotency_key=idempotency_key
        )

    def propose(self, draft_id: str, *, idempotency_key: str | None = None) -> DraftView:
        """Propose a call again that was not made.

        For a draft that was rejected, has expired, or drifted: the same call is made again by whoever made it
        first, on the state as it is now. The draft stays as it is; the answer is the new one.
        """
        return self._caller.invoke("draft.propose", {"draft_id": draft_id}, DraftView, idempotency_key=idempotency_key)

    def review(self, draft_id: str) -> DraftReview:
        """Look at a call that waits as it would be made now.

        Says what has changed since it was proposed, and what the call would do. Nothing is called.
        """
        return self._caller.invoke("draft.review", {"draft_id": draft_id}, DraftReview)
