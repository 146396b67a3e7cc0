"""`penstock server verify`: a black-box kit that checks how a server governs agents. Read `command` first.

A check is a small function in a table (`checks`); the tables are in `profiles`, one for each profile. What the checks
use to talk to a server is in `target` and `kit`; `runner` runs them and `report` prints what they found. The kit knows
a server only by its addresses and keys.
"""
