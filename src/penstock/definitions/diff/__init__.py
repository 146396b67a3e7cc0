"""Compares two versions of a workflow: what changed, whom it breaks, whether runs in flight could be moved.

Read `compare` first.
"""
