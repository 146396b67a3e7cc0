"""Operations on trigger, typed. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from penstock.client.caller import Caller
from penstock.client.generated.views.trigger import TriggerList

__all__ = ["Triggers"]


class Triggers:
    """Operations on trigger."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def list(self, *, workflow_id: str | None = None) -> TriggerList:
        """List the webhooks that start or signal workflows.

        Returns the addresses to give to senders, how requests are signed, and the name of the secret; never the
        secret itself. webhook.list has the addresses that events are sent to, schedule.list the schedules.
        """
        return self._caller.invoke("trigger.list", {"workflow_id": workflow_id}, TriggerList)
