"""Loads: records become rows, written piece by piece at a pace that leaves time to others, and edges get their ends.

Above it: `staged_work`. Below it: `staging`, `versions`, `database`.
"""
