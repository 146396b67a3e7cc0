"""Call the tool as an assistant does. `fastmcp call` of FastMCP 4.1.2 cannot answer questions, so this is a program."""

import asyncio
from typing import Any

from fastmcp import Client


async def answer(message: str, response_type: Any, params: Any, context: Any) -> Any:
    """Ask the person at the terminal."""
    line = await asyncio.to_thread(input, f"{message} [approve/decline]: ")
    return response_type(value=line.strip() == "approve")


async def main() -> None:
    """Call it once."""
    async with Client("server.py", elicitation_handler=answer, mode="legacy") as client:
        print((await client.call_tool("refund_order", {"order_id": "A-7", "amount": 180})).data)


asyncio.run(main())
