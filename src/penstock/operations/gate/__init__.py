"""What every call passes before and after its handler: authentication, rate limits, idempotency, the audit log, and the
context that handlers get. `penstock.operations.gate.pipeline` puts the parts in order; read it first.
"""
