"""Subscriptions to changes. `changes` finds out what changed for whom; `methods` tells the clients."""
