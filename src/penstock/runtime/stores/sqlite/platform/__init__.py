"""The platform store: API keys, idempotency, the audit log, registered resources and deliveries.

`store` implements the port; the other modules are functions of a connection, one module for each table.
"""
