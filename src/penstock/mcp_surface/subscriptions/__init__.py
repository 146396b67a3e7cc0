"""Subscriptions to changes: `changes` finds what changed for whom, `methods` notifies the clients.

Only `methods` imports the SDK. Read `changes` first.
"""
