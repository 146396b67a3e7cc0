"""Start the workflow and answer its question. An assistant needs an MCP server of your own in front of it."""

import asyncio

from temporalio.client import Client
from worker import RefundOrder


async def main() -> None:
    """Start it, ask the person at the terminal, and print the result."""
    client = await Client.connect("127.0.0.1:7233")
    handle = await client.start_workflow(RefundOrder.run, args=["A-7", 180.0], id="refund-A-7", task_queue="refunds")
    approved = (await asyncio.to_thread(input, "Refund 180 for order A-7? [approve/decline]: ")).strip() == "approve"
    await handle.signal(RefundOrder.decide, approved)
    print(await handle.result())


asyncio.run(main())
