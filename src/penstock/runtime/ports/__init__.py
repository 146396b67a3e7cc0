"""The ports of the runtime: what stores and hosts offer, and the values that they exchange.

`runs` is the run store: histories and their index, definitions, schedules, workers. `platform` is the store of
everything else: keys, calls, audit log, resources, deliveries. `host` is any host of runs, and `commits` the result of
a write that is on its way to the disk. Nothing here knows an adapter. The port of executors is `activities.performing`.
Read `host` first.
"""
