"""The platform store: API keys, idempotency, the audit log, registered resources and deliveries.

`store` implements the port. The other modules are functions that take a connection, one module for each table. Read
`store` first.
"""
