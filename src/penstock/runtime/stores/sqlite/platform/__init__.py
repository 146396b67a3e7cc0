"""Tables about everything beside runs: API keys, the audit log and its sealed ends, idempotency, registered resources,
deliveries.
"""
