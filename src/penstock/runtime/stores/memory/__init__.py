"""The stores in memory: the reference for what a store does, and the stores that tests use.

They do no I/O, and nothing survives the process. Read `run_store` first.
"""
