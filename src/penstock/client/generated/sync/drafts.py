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

        Each entry says who proposed what, why it waits, until when, and what the result was.
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

        Returns the whole call, its digest, who may approve it, and its result. An answer with a secret is shown
        only to the caller who proposed it, for one day.
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

        When enough people have approved it, the call is made once, on behalf of the principal that proposed it. The
        answer has the result, if it is known in time. Models and agents cannot approve.
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

        One approver who rejects it is enough: the call is not made.
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
        """Make a call that you have reviewed.

        For a draft that its caller asked for and that needs no other approval: the caller makes the call, and sends
        the digest of what they reviewed. For any other draft, it counts as an approval, if you may give one.
        """
        return self._caller.invoke(
            "draft.commit",
            {"draft_id": draft_id, "digest": digest, "note": note, "wait_seconds": wait_seconds},
            DraftView,
            idempotency_key=idempotency_key,
        )

    def cancel(self, draft_id: str, *, reason: str | None = None, idempotency_key: str | None = None) -> DraftView:
        """Withdraw a call that waits for approval.

        The caller who proposed it can withdraw it, and so can its approvers.
        """
        return self._caller.invoke(
            "draft.cancel", {"draft_id": draft_id, "reason": reason}, DraftView, idempotency_key=idempotency_key
        )

    def propose(self, draft_id: str, *, idempotency_key: str | None = None) -> DraftView:
        """Propose a call again that was not made.

        For a draft that was rejected, has expired, or drifted. Its proposer makes the same call again, on the
        present state. The old draft stays as it is; the answer is the new one.
        """
        return self._caller.invoke("draft.propose", {"draft_id": draft_id}, DraftView, idempotency_key=idempotency_key)

    def review(self, draft_id: str) -> DraftReview:
        """Review a call that waits against the present state.

        Says what has changed since the call was proposed, and what the call would do now. Nothing is called.
        """
        return self._caller.invoke("draft.review", {"draft_id": draft_id}, DraftReview)
