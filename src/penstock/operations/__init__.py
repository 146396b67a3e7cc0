"""The operations: what can be called, the one gate in front of it, and a package for each resource.

`catalogue` describes what can be called. `gate` takes every call through authentication, rate limits, idempotency and
the audit log. `permissions`, `runs` and `stored_resources` are what several resources need; the resources themselves
(`executions`, `workflows`, `schedules`, `webhooks`, `registries`, `keys`, `upstreams`, `exposed`, `system`) do not
import each other. `builtin` finds all their operations. Read `gate.pipeline` first.
"""
