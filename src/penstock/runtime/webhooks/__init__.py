"""Outgoing webhooks: events of runs, sent to registered endpoints.

`events` derives the events from a history, `endpoints` has the subscriptions, `feed` queues a delivery for each event,
`dispatcher` sends deliveries at least once. The package uses the stores through their ports; a `Sender` does the
network I/O. Read `dispatcher` first.
"""
