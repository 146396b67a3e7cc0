"""The operations: what can be called, the one gate in front of it, and a package for each resource.

`catalogue` describes what can be called; `gate` takes every call through authentication, rate limits, idempotency and
the audit log. `permissions`, `runs`, `stored_queries` and `stored_resources` hold what several resources share; the
resources themselves (`executions`, `workflows`, `schedules`, `graphs`, `webhooks`, `registries`, `keys`, `upstreams`,
`exposed`, `system`) do not import each other. All I/O goes through the ports of `runtime`; `builtin` collects the
operations. Read `gate` first.
"""
