"""The path of every call: authentication, rate limits, idempotency, the audit log, and the context of a handler.

`pipeline` puts the stages in order. The gate knows no resource. It reaches the stores only through the ports of
`runtime`. Read `pipeline` first.
"""
