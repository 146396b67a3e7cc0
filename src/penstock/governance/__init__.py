"""Pure rules of keys, signatures and the audit log: how they are written, sealed and verified.

Nothing here draws a random number, reads a clock or keeps anything. Read `audit_chain` first.
"""
