"""Rate limits: what principals, tenants, capabilities and network peers may ask for in a minute, and at once.

`limiter` counts the calls of principals, `peers` the requests of unknown senders; `sharing` lets processes
count together. All are arithmetic on `governance.rates`. Read `limiter` first.
"""
