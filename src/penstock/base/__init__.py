"""Code that every other package may use: errors, JSON values, run ids, scopes, the clock protocol, a bounded
cache and named limits.

It imports only the standard library, and msgspec in `encoding`, and does no I/O. Read `errors` first.
"""
