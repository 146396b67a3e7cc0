"""Results, and what is said about executions, as MCP clients and the models behind them read them.

Read `results` first. Nothing in this package knows the SDK: results are plain JSON as it goes over the wire.
"""
