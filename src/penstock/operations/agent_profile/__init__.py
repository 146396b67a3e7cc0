"""Operations behind the agent profile on HTTP, which exist only where it is switched on. Read `apps` first.

An app is a name for agent keys that share scopes, a policy and grants (`records`). The demo ledger (`ledger`,
`transactions`) is what compatible clients and the conformance kit work on; it has a switch of its own.
"""
