"""Requests over HTTP: `http` nodes, and the webhooks that `runtime.webhooks` sends.

All connections go through `outbound.guarded_transport`. Read `executor` first.
"""
