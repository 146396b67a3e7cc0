"""Loads: records become rows, written piece by piece at a pace that leaves time to others.

`preparing` checks records and makes rows of them, and `loading` writes pieces of rows. `hops` then enters the edges at
their ends. `pacing` says how large a piece is and when it is written. `staged_work`, above, puts them together.
Read `loading` first.
"""
