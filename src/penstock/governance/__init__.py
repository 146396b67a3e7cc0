"""Pure rules of keys, signatures, policies and the audit log: how they are written, sealed, decided and verified.

Nothing here draws random numbers, reads a clock, does I/O or keeps state. It may import `base` and
`definitions`. Read `principals` first, then the package `audit`.
"""
