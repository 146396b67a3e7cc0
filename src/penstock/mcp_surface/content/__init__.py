"""Results, and texts about runs, as MCP clients and the models behind them read them.

Results are plain JSON in wire form; nothing in this package imports the SDK. Read `results` first.
"""
