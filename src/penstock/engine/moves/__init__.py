"""Plain moves in one step: compile a plan per workflow by probing `decide`, then make moves from the plan.

This is a fast path: it returns exactly what `decide` would, or leaves the input to `decide`. Pure, like the whole
engine. Read `taking` first.
"""
