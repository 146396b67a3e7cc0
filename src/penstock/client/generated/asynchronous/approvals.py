"""Operations on approval, awaited. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from collections.abc import AsyncIterator

from penstock.client.caller import AsyncCaller
from penstock.client.generated.views.approval import ApprovalPage, DecidedApproval, DecidedPage, WaitingApproval

__all__ = ["AsyncApprovals"]


class AsyncApprovals:
    """Operations on approval."""

    def __init__(self, caller: AsyncCaller) -> None:
        self._caller = caller

    async def decided(self, *, limit: int | None = None, cursor: str | None = None) -> DecidedPage:
        """List what was approved or declined.

        Each entry says who decided, when, and what the result was. Questions of workflows are included if you may
        read runs; the decision is null where a policy hides fields of the workflow from you.
        """
        return await self._caller.invoke("approval.decided", {"limit": limit, "cursor": cursor}, DecidedPage)

    async def decided_all(self, *, limit: int | None = None) -> AsyncIterator[DecidedApproval]:
        """List what was approved or declined: all of them; `limit` is the size of a page."""
        async for page in self._caller.pages("approval.decided", {"limit": limit}, DecidedPage):
            for item in page.items:
                yield item

    async def list(
        self, *, mine: bool | None = None, limit: int | None = None, cursor: str | None = None
    ) -> ApprovalPage:
        """List what waits for a decision.

        Each entry says who asked, who may decide, until when, and whether you may. Use it to find calls and
        questions that wait for you. Questions of workflows are included if you may read runs; `prompt` is null
        where a policy hides fields of the workflow from you.
        """
        return await self._caller.invoke(
            "approval.list", {"mine": mine, "limit": limit, "cursor": cursor}, ApprovalPage
        )

    async def list_all(self, *, mine: bool | None = None, limit: int | None = None) -> AsyncIterator[WaitingApproval]:
        """List what waits for a decision: all of them; `limit` is the size of a page."""
        async for page in self._caller.pages("approval.list", {"mine": mine, "limit": limit}, ApprovalPage):
            for item in page.items:
                yield item
