"""Schedules: runs that start by the clock, and the timetables that say when.

`scheduler` starts runs and uses the host and the store through their ports; `timetables` only computes times.
Read `scheduler` first.
"""
