"""Code that every other package may use: errors, JSON values, run ids, scopes, the clock protocol, a bounded
cache and named limits.

It imports only the standard library and does no I/O. Read `errors` first.
"""
