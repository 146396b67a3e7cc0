"""Measurements of the parts that must be fast. `scripts/benchmark NAME` runs one, and its last line is JSON."""
