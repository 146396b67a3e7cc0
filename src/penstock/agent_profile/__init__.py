"""The agent profile on HTTP: `/api/agent/v1` for agents and `/api/agent-admin/v1` for administrators.

A thin translation into calls of the gate: nothing is decided here. Read `surface` first; `codes` is the one table that
maps reasons, `agent_plane` and `admin_plane` have the routes. An optional surface: `app.serving` adds it or leaves it
out.
"""
