"""Outgoing webhooks: events of runs, sent to whoever registered an endpoint.

`events` says which events a history has, `endpoints` who wants them, `feed` queues a delivery for each, `dispatcher`
sends deliveries at least once. Read `dispatcher` first.
"""
