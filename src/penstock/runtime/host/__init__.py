"""The embedded host and its parts: it takes inputs for runs, commits decisions and performs effects.

Read `ports.host` first (what any host promises), then `embedded` (transitions) and `driver` (effects). `writes` makes
what is stored, `deciding` calls the engine, `live_runs` keeps runs in memory, `leases` and `watchdog` keep the work of
several processes apart, `timers` and `effects` are what the driver performs. `memory` is a host for simulations. It
knows stores and executors only through ports.
"""
