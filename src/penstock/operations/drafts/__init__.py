"""Drafts: calls that wait for approval, as people and agents see them.

`operations` shows and decides them, `preflight` shows a call before it is made, `grants` lets agents act by themselves
for a while, and `making` makes a call that was approved. A draft is a run (`runs.held_calls`); nothing here has a store
of its own. Read `operations` first.
"""
