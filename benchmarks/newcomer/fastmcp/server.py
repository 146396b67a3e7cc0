"""The refund of the README as a FastMCP server: amounts over 100 ask a person."""

from fastmcp import Context, FastMCP

mcp = FastMCP("shop")


@mcp.tool
async def refund_order(order_id: str, amount: float, context: Context) -> dict[str, float]:
    """Refund an order."""
    if amount > 100:
        answer = await context.elicit(f"Refund {amount} for order {order_id}?", bool)
        if answer.action != "accept" or not answer.data:
            return {"refunded": 0}
    return {"refunded": amount}


if __name__ == "__main__":
    mcp.run()
