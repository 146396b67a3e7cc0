"""Compares two versions of a workflow: what changed, whom it breaks, whether runs in flight could be moved.

Read `compare` first. Its result is in `model`. The package is pure: it reads two documents and decides nothing about
publishing. Below it: `outline` and `nodes`.
"""
