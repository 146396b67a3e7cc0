"""What MCP costs: `__main__` runs it, `product` is Penstock, `peers` are the servers that it is compared with."""
