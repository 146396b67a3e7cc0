"""The shell around the pure engine: everything that waits, stores, calls out or reads a clock.

`ports` says what stores and hosts are, `host` runs workflows on any store, `activities` is how executors are called.
`stores` and `executors` are adapters: they know ports only, neither each other nor the host, and `app` alone names
them. Read `ports.host` first.
"""
