"""The refund of the README as a Temporal workflow: amounts over 100 wait for a signal."""

import asyncio
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import Worker


@activity.defn
async def refund(order_id: str, amount: float) -> float:
    """Pay an amount back."""
    return amount


@workflow.defn
class RefundOrder:
    """Refund an order."""

    def __init__(self) -> None:
        self.approved: bool | None = None

    @workflow.signal
    def decide(self, approved: bool) -> None:
        """Approve or decline it."""
        self.approved = approved

    @workflow.run
    async def run(self, order_id: str, amount: float) -> dict[str, float]:
        """Wait for a decision if it is a large amount, and pay."""
        if amount > 100:
            await workflow.wait_condition(lambda: self.approved is not None, timeout=timedelta(hours=24))
            if not self.approved:
                return {"refunded": 0}
        paid = await workflow.execute_activity(
            refund, args=[order_id, amount], start_to_close_timeout=timedelta(seconds=30)
        )
        return {"refunded": paid}


async def main() -> None:
    """Work until the process is ended."""
    client = await Client.connect("127.0.0.1:7233")
    await Worker(client, task_queue="refunds", workflows=[RefundOrder], activities=[refund]).run()


if __name__ == "__main__":
    asyncio.run(main())
