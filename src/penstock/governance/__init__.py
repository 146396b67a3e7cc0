"""Pure rules of keys, signatures and the audit log: how they are written, sealed and verified.

Nothing here draws random numbers, reads a clock, does I/O or keeps state. It may import `base` and
`definitions`. Read `audit_chain` first.
"""
