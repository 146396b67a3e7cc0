"""The embedded host and its parts: it takes inputs for runs, commits decisions and performs effects.

Read `port` first (what any host promises), then `embedded` and `driver`. Knows stores and executors only through
ports.
"""
