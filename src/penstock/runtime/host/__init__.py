"""The embedded host and its parts: it accepts inputs for runs, commits decisions and performs effects.

`ports.host` defines what any host promises. `embedded` makes transitions, `driver` performs effects, `writes` builds
what is stored, `deciding` calls the engine, `live_runs` keeps runs in memory, `leases` and `watchdog` keep the work of
several processes apart, `timers` and `effects` are used by the driver. `memory` is a host for simulations. The package
knows stores and executors only through ports. Read `embedded` first.
"""
