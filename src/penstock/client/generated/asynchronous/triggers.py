"""Operations on trigger, awaited. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from penstock.client.caller import AsyncCaller
from penstock.client.generated.views.trigger import TriggerList

__all__ = ["AsyncTriggers"]


class AsyncTriggers:
    """Operations on trigger."""

    def __init__(self, caller: AsyncCaller) -> None:
        self._caller = caller

    async def list(self, *, workflow_id: str | None = None) -> TriggerList:
        """List the webhooks that start or signal workflows.

        Returns the addresses to give to senders, how requests are signed, and the name of the secret; never the
        secret itself. webhook.list has the addresses that events are sent to, schedule.list the schedules.
        """
        return await self._caller.invoke("trigger.list", {"workflow_id": workflow_id}, TriggerList)
