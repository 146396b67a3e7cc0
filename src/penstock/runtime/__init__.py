"""The shell around the pure engine: everything that waits, stores, calls out or reads a clock.

`ports` defines what stores and hosts are, `host` runs workflows on any store, `activities` defines how executors are
called. `stores` and `executors` are adapters: they know only the ports, neither each other nor the host, and only `app`
names them. Read `ports` first.
"""
