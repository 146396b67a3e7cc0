"""What the executors that call other systems share. It knows HTTP and JSON, and nothing of activities or runs.

`bounded_body` limits how much of a response is read; `httpx2_limits` and `httpx_limits` apply it to the two HTTP
libraries. `guarded_transport` connects only to allowed addresses, `tls_trust` caches the trusted certificates,
`error_text` shortens error texts of other systems for a history. Read `bounded_body` first.
"""
