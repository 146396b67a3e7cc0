"""The path of every call: authentication, rate limits, idempotency, the audit log, and the context of a handler.

`pipeline` puts the stages in order. The gate knows no resource. It may import `catalogue` and the ports of `runtime`,
and it reaches the stores only through those ports. Read `pipeline` first.
"""
