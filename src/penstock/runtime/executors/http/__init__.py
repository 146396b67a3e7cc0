"""Requests over HTTP: `http` nodes (read `executor` first), and the webhooks that `runtime.webhooks` sends."""
