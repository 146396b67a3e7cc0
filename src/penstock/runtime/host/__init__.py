"""The embedded host and its parts: it accepts inputs for runs, commits decisions and performs effects.

`ports.host` defines what any host promises. `embedded` makes transitions, `driver` performs effects with `timers` and
`effects`, and `writes` builds what is stored. `deciding` calls the engine, and `live_runs` keeps runs in memory.
`leases` and `watchdog` keep the work of several processes apart. `memory` is a host for simulations. The package knows
stores and executors only through ports. Read `embedded` first.
"""
