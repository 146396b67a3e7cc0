"""Profile `writes`: what changes something waits for a person, and happens at most once. `table` is its table.

Read `drafts` first, then `auto_execute`, `preflights`, `idempotency`, `approvals` and `stored`.
"""
