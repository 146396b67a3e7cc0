"""The ports of the runtime: what may be asked of a store and of a host, and the values that they exchange.

`runs` is the run store (histories and their index, definitions, schedules, workers), `platform` the store of everything
beside runs (keys, calls, audit log, resources, deliveries), `host` whatever hosts runs, `commits` what a store answers
before the disk does. Nothing here knows an adapter. Read `host` first, then `runs`. The port of executors is
`activities.performing`.
"""
