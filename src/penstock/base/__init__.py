"""What every other package may use: errors, JSON values, run ids, scopes, the clock protocol and named limits.

It needs nothing but the standard library and does no I/O. Read `errors` first, then `limits`.
"""
