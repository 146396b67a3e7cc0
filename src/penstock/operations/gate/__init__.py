"""The path of every call: authentication, rate limits, idempotency, the audit log, and the context of a handler.

`pipeline` puts the stages in order; read it first. The gate knows no resource. It may use the ports of `runtime`.
"""
